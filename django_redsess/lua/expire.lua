-- End sessions whose deadline has passed, as of now. ARGV: how many at most, "1" to say whom.
-- Reply: 1 if more of them are there, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
remove(due(ARGV[1]), "expired", expire, ARGV[2] ~= "1")
local first = first_deadline()
return with_ended(first and first <= now and 1 or 0)
