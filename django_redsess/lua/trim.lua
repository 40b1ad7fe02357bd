-- Take the least viewed items out, as of now. KEYS: viewed. ARGV: how many to keep, how many to take out at most.
-- Reply: how many it took out, and how many are still too many.
local above = redis.call("ZCARD", KEYS[1]) - ARGV[1]
local count = math.max(0, math.min(above, tonumber(ARGV[2])))
if count > 0 then redis.call("ZREMRANGEBYRANK", KEYS[1], -count, -1) end
return { count, math.max(0, above - count) }
