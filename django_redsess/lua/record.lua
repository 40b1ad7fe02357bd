-- Stands behind user.lua: whether a session lives, what is in its record, and when it will be due.

-- The deadline of a session, if it is still ahead; or false.
local function in_time(sid)
  local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
  return deadline > now and deadline
end

-- The record of a session that is there and not due, and its deadline; or false.
local function live_record(sid)
  local deadline = in_time(sid)
  return deadline and redis.call("HGET", login, sid), deadline
end

-- Why a session is gone, as far as that is still known: "rotated" and its new sid; or the reason of its end, when it
-- ended, and what its user is to read; or "".
local function note_of(sid)
  -- pcall: somebody may have put anything there.
  local note = redis.pcall("GET", ended_of .. sid)
  return type(note) == "string" and note or ""
end

-- Whether a record may be one of this user: whose one is that can't be read, nobody knows.
local function may_be_of(record, user_id)
  return record and (not is_readable(record) or user_id ~= "" and user_of(record) == user_id)
end

-- New with each write, so that two records are the same exactly if their revisions are.
local function revision_of(record)
  return string.sub(record, 2, 9)
end

-- Django's deadline of a record, and its age: 0 where the deadline was set as a date.
local function django_times(record)
  if #record < 21 then return 0, 0 end
  local deadline, age = struct.unpack(">I6I6", record, 10)
  return deadline, age
end

-- What limits the life of a session besides Django's deadline: milliseconds, 0 for no limit. Idle counts from when it
-- was last seen, to the interval between two notes of that: one more of these is added, so that nothing ends early.
local function policy_from(interval, idle, absolute)
  return { interval = tonumber(interval), idle = tonumber(idle), absolute = tonumber(absolute) }
end

-- When a session that was seen then will be due: the earliest of its deadlines. No login time (nil) for a guest's.
local function due_at(django_deadline, login_time, policy, seen)
  local at = django_deadline
  if policy.idle > 0 then at = math.min(at, seen + policy.idle + policy.interval) end
  if policy.absolute > 0 and login_time then at = math.min(at, login_time + policy.absolute) end
  return at
end
