-- Stands behind record.lua and latest.lua: the way in.

-- Write a record, and note when its session will be due. django_deadline goes into the record, due into the order of
-- deadlines; before is where it was in that order, or nil; first the earliest of all, or nil where nobody has looked.
local function write(sid, record, django_deadline, due, before, first)
  local times = struct.pack(">I6", math.max(0, django_deadline))
  redis.call("HSET", login, sid, string.sub(record, 1, 9) .. times .. string.sub(record, 16))
  if due == before then return end
  local sooner = not before or due < before
  first = first or sooner and first_deadline()
  redis.call("ZADD", expire, text(due), sid)
  -- A cleaner sleeps until the first deadline, unless it is told of an earlier one: once, however many come.
  -- pcall: the session is written, whatever becomes of that.
  if sooner and (not first or due < first) and redis.pcall("LLEN", wake) == 0 then
    redis.pcall("LPUSH", wake, "earlier")
  end
end

-- Write a session with the deadlines of its record, seen then. date: milliseconds since 1970, or "" where the record's
-- age counts.
local function write_anew(sid, record, login_time, date, policy, seen, before, first)
  local _, age = django_times(record)
  local django_deadline = date == "" and seen + age or tonumber(date)
  write(sid, record, django_deadline, due_at(django_deadline, login_time, policy, seen), before, first)
end

-- Put a session's user into the lists of who is online.
local function sign_in(sid, user_id, login_time, seen)
  redis.call("ZADD", online_user, text(login_time), sid)
  redis.call("ZADD", online_user_of .. user_id, text(login_time), sid)
  redis.call("ZADD", online_seen, "GT", text(seen), sid)
end

-- Take a session's user out of these.
local function sign_out(sid, user_id)
  redis.call("ZREM", online_user, sid)
  redis.call("ZREM", online_seen, sid)
  redis.call("ZREM", online_user_of .. user_id, sid)
end

-- Add a session to every key. No login time (nil) stands for now; first as above. By a clock that was stepped back it
-- counts as seen with the newest: else it would be the first to go, and over when the clock is right again.
local function put(sid, record, user_id, login_time, date, policy, first)
  local seen = now_or_latest(recent)
  login_time = user_id ~= "" and (login_time or seen) or nil
  write_anew(sid, record, login_time, date, policy, seen, nil, first)
  redis.call("ZADD", recent, "GT", text(seen), sid)
  if login_time then sign_in(sid, user_id, login_time, seen) end
end
