-- End sessions that are due, as of now.
-- KEYS: see partition.lua. ARGV: how many at most, "1" to name those that ended.
-- Reply: 1 if more are due, else 0, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
remove(due(ARGV[1]), "expired", expire, ARGV[2] ~= "1")
local first = first_deadline()
return with_ended(first and first <= now and 1 or 0)
