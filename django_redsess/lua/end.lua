-- End sessions. ARGV: reason, or "" for one that was never anybody's; up to 250 sids.
-- Reply: how many of the sids it has dealt with, see with_ended.
-- include partition.lua
return with_ended(remove({ unpack(ARGV, 2) }, ARGV[1] ~= "" and ARGV[1]))
