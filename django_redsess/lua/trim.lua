-- Take the least viewed items out, as of now.
-- KEYS: viewed totals. ARGV: how many to keep, how many to take out at most.
-- Reply: how many it took out, and how many are still too many.
local above = redis.call("ZCARD", KEYS[1]) - ARGV[1]
local count, views = math.max(0, math.min(above, tonumber(ARGV[2]))), 0
if count > 0 then
  local taken = redis.call("ZPOPMAX", KEYS[1], count)
  for at = 2, #taken, 2 do views = views - taken[at] end
  redis.call("HINCRBY", KEYS[2], "views", string.format("%.0f", -views))
end
return { count, math.max(0, above - count) }
