-- End the sessions longest unseen, as of now, above a maximum. ARGV: maximum, how many at most, "1" to say whom.
-- Reply: how many are still above it, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
local maximum = tonumber(ARGV[1])
remove(excess(maximum, tonumber(ARGV[2])), "evicted", recent, ARGV[3] ~= "1")
return with_ended(math.max(0, redis.call("ZCARD", recent) - maximum))
