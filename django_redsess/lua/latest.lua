-- Stands behind partition.lua: what came last.

-- When the newest entry of a list came, where a clock that was stepped back puts that ahead of now; else now. A day ahead
-- at most: so far a clock that was fast is believed.
local function now_or_latest(list)
  local latest = tonumber(redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2] or 0)
  return math.max(now, math.min(latest, now + 86400000))
end
