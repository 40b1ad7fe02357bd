-- Stands behind partition.lua: the time to go by. It is now; or, where the clock has stepped back, what is noted.

-- The time of an entry that is ahead of now, else now. At most a day ahead: a clock that was fast is believed that far.
local function now_or(time)
  return math.max(now, math.min(tonumber(time or 0), now + 86400000))
end

-- The same, for the newest entry of a list.
local function now_or_latest(list)
  return now_or(redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2])
end

-- Whether the caller has made its record by that time, to the second. The record is sealed, so no script can mend it.
local function agrees(seen, at)
  return math.abs(seen - at) <= 1000
end
