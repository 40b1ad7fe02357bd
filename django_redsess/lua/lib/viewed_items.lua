-- What a session viewed. The script's KEYS have `popularity`, or nil if another partition counts the item's views.
-- needs: partition, clock, popularity

-- Record that a session viewed an item, and count the view. A session keeps its newest `keep` items.
local function record_view(sid, item, keep, items_max)
  local items = viewed_by .. sid
  -- Later than the newest, even if the clock has stepped back: else this item could be the first to be trimmed.
  local newest = redis.call("ZRANGE", items, -1, -1, "WITHSCORES")
  redis.call("ZADD", items, digits(newest[2] and math.max(now, newest[2] + 1) or now), item)
  redis.call("ZREMRANGEBYRANK", items, 0, -keep - 1)
  if popularity then count_view(item, items_max) end
end
