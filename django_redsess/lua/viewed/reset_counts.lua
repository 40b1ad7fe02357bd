-- Forget how often items were viewed.
-- KEYS: totals popularity
-- ARGV: items...
-- No items stands for all.
-- Reply: how many views those were.
local views = 0
if #items == 0 then
  views = redis.call("HGET", totals, "views") or 0
  -- UNLINK: memory is freed in the background, however many items there are.
  redis.call("UNLINK", popularity)
  redis.call("HDEL", totals, "views", "views_since")
  return tonumber(views)
end
for _, score in ipairs(redis.call("ZMSCORE", popularity, unpack(items))) do views = views - (score or 0) end
if redis.call("ZREM", popularity, unpack(items)) > 0 then
  redis.call("HINCRBY", totals, "views", string.format("%.0f", -views))
end
return views
