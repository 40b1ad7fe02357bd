-- Stands at the head of the other scripts: the keys of a partition, its clock, and the ways in and out of it.
-- KEYS: login expire recent online:seen online:user "online:user:" "viewed:"
-- (Behind the name of the last but one goes a user id, behind the last a sid.)
local login, expire, recent, online_seen, online_user, online_user_of, viewed_by = unpack(KEYS)

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Lua's own conversion would write a time as 1.79e+12.
local function text(milliseconds)
  return string.format("%.0f", milliseconds)
end

-- age: milliseconds from now; date: milliseconds since 1970, or "" where the age counts.
local function deadline_from(age, date)
  return date == "" and now + age or tonumber(date)
end

-- Whether the deadline of a session is still ahead.
local function in_time(sid)
  local deadline = redis.call("ZSCORE", expire, sid)
  return deadline and tonumber(deadline) > now
end

-- The record of a session that is there and not due, or false.
local function live_record(sid)
  return in_time(sid) and redis.call("HGET", login, sid)
end

-- The header of a record is described in record.py; "" stands for no user.
local function user_of(record)
  if not record or #record < 10 or string.sub(record, 1, 1) ~= "1" then return "" end
  return string.sub(record, 11, 10 + string.byte(record, 10))
end

-- A client repeats a command whose reply it lost: then the record that it brings is there already.
local function same_revision(record, other)
  return string.sub(record, 2, 9) == string.sub(other, 2, 9)
end

-- Write a session into every key. Its login time stays where it has one for this user, else it is that given, or now.
local function put(sid, record, user_id, deadline, login_time)
  redis.call("HSET", login, sid, record)
  redis.call("ZADD", expire, text(deadline), sid)
  redis.call("ZADD", recent, "GT", text(now), sid)
  if user_id ~= "" then
    login_time = login_time or text(now)
    redis.call("ZADD", online_user, "NX", login_time, sid)
    redis.call("ZADD", online_user_of .. user_id, "NX", login_time, sid)
    redis.call("ZADD", online_seen, "GT", text(now), sid)
  end
end

-- Take a session's user out of the lists of who is online.
local function sign_out(sid, user_id)
  if user_id ~= "" then
    redis.call("ZREM", online_user, sid)
    redis.call("ZREM", online_seen, sid)
    redis.call("ZREM", online_user_of .. user_id, sid)
  end
end

-- Take up to 1000 sessions out of every key. Returns sid, user id, sid, user id, … of those that were there.
local function remove(sids)
  local removed, views, users, of_user = {}, {}, {}, {}
  if #sids == 0 then return removed end
  for index, record in ipairs(redis.call("HMGET", login, unpack(sids))) do
    local sid, user_id = sids[index], user_of(record)
    views[index] = viewed_by .. sid
    if user_id ~= "" then
      local name = online_user_of .. user_id
      if not of_user[name] then
        of_user[name] = {}
        table.insert(users, name)
      end
      table.insert(of_user[name], sid)
    end
    if record then
      removed[#removed + 1] = sid
      removed[#removed + 1] = user_id
    end
  end
  -- While a cluster moves this slot, a key may be elsewhere already: fail on that now, with nothing written yet.
  redis.call("EXISTS", unpack(views))
  if #users > 0 then redis.call("EXISTS", unpack(users)) end
  redis.call("HDEL", login, unpack(sids))
  for _, name in ipairs({ expire, recent, online_seen, online_user }) do
    redis.call("ZREM", name, unpack(sids))
  end
  for name, his in pairs(of_user) do
    redis.call("ZREM", name, unpack(his))
  end
  redis.call("DEL", unpack(views))
  return removed
end

-- Up to limit sessions whose deadline has passed, the earliest first.
local function due(limit)
  return redis.call("ZRANGE", expire, "-inf", text(now), "BYSCORE", "LIMIT", 0, limit)
end

-- Up to limit of the sessions above a maximum, those longest unseen first.
local function excess(maximum, limit)
  local count = math.min(redis.call("ZCARD", recent) - maximum, limit)
  return count > 0 and redis.call("ZRANGE", recent, 0, count - 1) or {}
end

-- What a list shows of a session: sid, login time, last seen, deadline, record. Nothing (nil) without a record.
local function row_of(sid, record)
  return record and {
    sid,
    redis.call("ZSCORE", online_user, sid) or "",
    redis.call("ZSCORE", recent, sid) or "",
    redis.call("ZSCORE", expire, sid),
    record,
  } or nil
end
