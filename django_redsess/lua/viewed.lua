-- Stands behind partition.lua and popular.lua: what a session viewed.

-- Note an item that a session viewed, of which it keeps so many, the newest; and count the view, unless the item's
-- popularity is in another partition (nil).
local function note_view(sid, item, keep, limit, popularity)
  local viewed = viewed_by .. sid
  -- After the newest, even if the clock has stepped back: else what was just viewed could be the first to be trimmed.
  local newest = redis.call("ZRANGE", viewed, -1, -1, "WITHSCORES")
  redis.call("ZADD", viewed, text(newest[2] and math.max(now, newest[2] + 1) or now), item)
  redis.call("ZREMRANGEBYRANK", viewed, 0, -keep - 1)
  if popularity then count_view(popularity, totals, item, limit) end
end
