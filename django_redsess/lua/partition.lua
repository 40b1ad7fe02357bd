-- Stands at the head of the other scripts: the keys of a partition, and its clock.
-- KEYS: login expire recent guests online:user "online:user:" "viewed:" "ended:" wake totals
-- (Behind the name of "online:user:" goes a user id, behind the next two a sid.)
local login, expire, recent, guests, online_user, online_user_of, viewed_by, ended_of, wake, totals =
  unpack(KEYS, 1, 10)

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Lua's own conversion would write a time as 1.79e+12.
local function text(milliseconds)
  return string.format("%.0f", milliseconds)
end

-- Where it is noted when a session of this user ("": a guest's) was last seen.
local function seen_list_of(user_id)
  return user_id == "" and guests or recent
end

-- When a session was last seen, whosever it is; or false.
local function last_seen(sid)
  return redis.call("ZSCORE", recent, sid) or redis.call("ZSCORE", guests, sid)
end

-- The earliest deadline of all, or nil.
local function first_deadline()
  return tonumber(redis.call("ZRANGE", expire, 0, 0, "WITHSCORES")[2])
end
