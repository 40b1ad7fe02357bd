-- Stands at the head of the other scripts: the keys of a partition, and its clock.
-- KEYS: login expire recent online:seen online:user "online:user:" "viewed:" "ended:" wake totals
-- (Behind the name of "online:user:" goes a user id, behind the next two a sid.)
local login, expire, recent, online_seen, online_user, online_user_of, viewed_by, ended_of, wake, totals =
  unpack(KEYS, 1, 10)

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Lua's own conversion would write a time as 1.79e+12.
local function text(milliseconds)
  return string.format("%.0f", milliseconds)
end

-- The earliest deadline of all, or nil.
local function first_deadline()
  return tonumber(redis.call("ZRANGE", expire, 0, 0, "WITHSCORES")[2])
end
