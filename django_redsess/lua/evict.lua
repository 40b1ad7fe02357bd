-- End sessions that are too many, as of now: guests' first, the longest unseen first.
-- KEYS: see partition.lua. ARGV: how many there may be (three numbers, see too_many), how many to end at most, "1" to
-- name those that ended. Reply: how many are still too many, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include excess.lua
local maximum, reserve, guests_maximum = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
return with_ended(evict(maximum, reserve, guests_maximum, tonumber(ARGV[4]), ARGV[5] ~= "1"))
