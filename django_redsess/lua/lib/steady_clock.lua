-- The time of a write. It is now. Where the clock has stepped back, it is the time that is stored already.
-- needs: clock

-- A stored time that is ahead of now, else now. At most a day ahead: no fast clock is believed further.
local function steady_time(stored)
  return math.max(now, math.min(tonumber(stored or 0), now + DAY))
end

-- The same, for the newest entry of a list.
local function steady_time_of(list)
  return steady_time(redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2])
end

-- Whether the caller made its record at that time, give or take a second. It is sealed: no script can change it.
local function is_made_at(at, expected)
  return math.abs(expected - at) <= 1000
end
