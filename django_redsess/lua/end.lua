-- End sessions. ARGV: up to 1000 sids. Reply: sid, user id, sid, user id, … of those that were there.
-- include partition.lua
return remove(ARGV)
