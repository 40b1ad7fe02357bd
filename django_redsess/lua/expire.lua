-- End sessions whose deadline has passed, as of now. ARGV: how many at most. Reply: as end.lua.
-- include partition.lua
return remove(due(ARGV[1]))
