-- Stands behind partition.lua: the way in.

-- The earliest deadline of all, or nil.
local function first_deadline()
  return tonumber(redis.call("ZRANGE", expire, 0, 0, "WITHSCORES")[2])
end

-- Write a session into every key. django_deadline goes into its record, due into the order of deadlines.
local function put(sid, record, user_id, login_time, django_deadline, due)
  local first = first_deadline()
  local times = struct.pack(">I6", math.max(0, django_deadline))
  redis.call("HSET", login, sid, string.sub(record, 1, 9) .. times .. string.sub(record, 16))
  redis.call("ZADD", expire, text(due), sid)
  redis.call("ZADD", recent, "GT", text(now), sid)
  if user_id ~= "" then
    redis.call("ZADD", online_user, text(login_time), sid)
    redis.call("ZADD", online_user_of .. user_id, text(login_time), sid)
    redis.call("ZADD", online_seen, "GT", text(now), sid)
  end
  -- A cleaner sleeps until the first deadline, unless it is told of an earlier one: once, however many come.
  -- pcall: the session is written, whatever becomes of that.
  if (not first or due < first) and redis.pcall("LLEN", wake) == 0 then redis.pcall("LPUSH", wake, "earlier") end
end

-- Write a session with the deadlines of its record. date: milliseconds since 1970, or "" where the record's age counts.
local function put_anew(sid, record, user_id, login_time, date, policy)
  local _, age = django_times(record)
  local django_deadline = date == "" and now + age or tonumber(date)
  login_time = user_id ~= "" and (login_time or now) or nil
  put(sid, record, user_id, login_time, django_deadline, due_at(django_deadline, login_time, policy))
end

-- Take a session's user out of the lists of who is online.
local function sign_out(sid, user_id)
  if user_id ~= "" then
    redis.call("ZREM", online_user, sid)
    redis.call("ZREM", online_seen, sid)
    redis.call("ZREM", online_user_of .. user_id, sid)
  end
end
