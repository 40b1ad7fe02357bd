-- Forget how often items were viewed. KEYS: viewed totals. ARGV: items, or nothing for all.
-- Reply: how many views those were.
local popularity, totals = KEYS[1], KEYS[2]
local views = 0
if #ARGV == 0 then
  views = redis.call("HGET", totals, "views") or 0
  -- Its memory is freed in the background, however many items there are.
  redis.call("UNLINK", popularity)
  redis.call("HDEL", totals, "views")
  return tonumber(views)
end
for _, score in ipairs(redis.call("ZMSCORE", popularity, unpack(ARGV))) do views = views - (score or 0) end
if redis.call("ZREM", popularity, unpack(ARGV)) > 0 then
  redis.call("HINCRBY", totals, "views", string.format("%.0f", -views))
end
return views
