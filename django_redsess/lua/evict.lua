-- End the sessions longest unseen, as of now, above a maximum. ARGV: maximum, how many at most. Reply: as end.lua.
-- include partition.lua
return remove(excess(tonumber(ARGV[1]), tonumber(ARGV[2])))
