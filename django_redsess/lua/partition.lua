-- Stands at the head of the other scripts: the keys of a partition, its clock, and the ways in and out of it.
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

-- The header of a record is described in record.py. One of another release has another format.
local function is_readable(record)
  return #record >= 22 and string.byte(record, 1) == 49 and #record >= 22 + string.byte(record, 22)
end

-- "" stands for no user.
local function user_of(record)
  if not record or not is_readable(record) then return "" end
  return string.sub(record, 23, 22 + string.byte(record, 22))
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

-- When a session that is seen now will be due: the earliest of its deadlines. No login time (nil) for a guest's.
local function due_at(django_deadline, login_time, policy)
  local at = django_deadline
  if policy.idle > 0 then at = math.min(at, now + policy.idle + policy.interval) end
  if policy.absolute > 0 and login_time then at = math.min(at, login_time + policy.absolute) end
  return at
end

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

-- Note that a session was seen now: "seen" for no more than that, "active" to move its deadline (before) too, "" for
-- nothing. Returns whether its cookie is to be sent again.
local function touch(sid, record, before, how, policy, sliding)
  if how == "" then return false end
  -- pcall: a server that is full, or a replica, refuses these writes, and still serves the read.
  local since_seen = now - (redis.call("ZSCORE", recent, sid) or 0)
  if since_seen >= policy.interval then
    redis.pcall("ZADD", recent, "XX", "GT", text(now), sid)
    if user_of(record) ~= "" then redis.pcall("ZADD", online_seen, "XX", "GT", text(now), sid) end
  end
  if how ~= "active" or not (sliding or policy.idle > 0 or policy.absolute > 0) then return false end

  -- Apart from the note above: else a passive request just before would keep this one from prolonging the session.
  local django_deadline, age = django_times(record)
  sliding = sliding and age > 0
  local later = sliding and now + age + policy.interval or django_deadline
  local login_time = policy.absolute > 0 and redis.call("ZSCORE", online_user, sid)
  local due = due_at(later, login_time, policy)
  local moved = due - before
  if moved ~= 0 and math.abs(moved) >= policy.interval then
    redis.pcall("ZADD", expire, "XX", text(due), sid)
  elseif moved ~= 0 or since_seen < policy.interval then
    return false
  end
  -- Nobody noted when the cookie was sent last. Its age is cut into tenths from the record's writing on, and the first
  -- request in each sends it again: what the deadline moved by is the time since the request before.
  local tenth, since_saved = age / 10, now - (django_deadline - age)
  local before_this = math.max(0, since_saved - (moved > 0 and moved or since_seen))
  return sliding and math.floor(since_saved / tenth) > math.floor(before_this / tenth)
end

-- Note an item that a session viewed, of which it keeps so many, the newest; and count the view, unless the item's
-- popularity is in another partition (nil).
local function note_view(sid, item, keep, popularity)
  local viewed = viewed_by .. sid
  -- After the newest, even if the clock has stepped back: else what was just viewed could be the first to be trimmed.
  local newest = redis.call("ZRANGE", viewed, -1, -1, "WITHSCORES")
  redis.call("ZADD", viewed, text(newest[2] and math.max(now, newest[2] + 1) or now), item)
  redis.call("ZREMRANGEBYRANK", viewed, 0, -keep - 1)
  if popularity then
    redis.call("ZINCRBY", popularity, -1, item)
    redis.call("HINCRBY", totals, "views", 1)
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

-- What each script replies that may end sessions: its own result and when it ran; then for each reason why it ended
-- some: the reason, how many, and of each its sid (20 bytes), and the user id as its record has it (length, text). Not
-- whom, where it was told to be quiet.
local ended = {}

local function with_ended(result)
  return { result, text(now), unpack(ended) }
end

-- For how long a user can still be told why the session is gone, in milliseconds. Other ends are of the user's own
-- making.
local told_for = { kicked = 86400000, replaced = 3600000, expired = 3600000, evicted = 3600000 }

-- Take up to 250 sessions out of every key, but no more at once than a megabyte of records. Without a reason they live
-- on elsewhere, and have not ended; words are for their users to read. They are the first of the list `order`, if that
-- is given. Returns how many of the sids it has dealt with.
local function remove(sids, reason, order, quiet, words)
  local views, lists, members, notes, there = {}, {}, {}, {}, 0
  local count, size, at_once = 0, 0, 1
  -- Twice as many records at a time, unless so many, if they are like those before, would be too much.
  while at_once >= 1 and count < #sids do
    local records = redis.call("HMGET", login, unpack(sids, count + 1, math.min(count + at_once, #sids)))
    for _, record in ipairs(records) do
      size = size + (record and #record or 0)
      if size > 1048576 and count > 0 then break end
      count = count + 1
      local sid = sids[count]
      local user_id_length = record and is_readable(record) and string.byte(record, 22) or 0
      views[count] = viewed_by .. sid
      if user_id_length > 0 then
        lists[#lists + 1] = online_user_of .. string.sub(record, 23, 22 + user_id_length)
        members[#lists] = sid
      end
      there = there + (record and 1 or 0)
      if record and reason and not quiet and #sid == 20 then
        notes[#notes + 1] = sid .. (user_id_length > 0 and string.sub(record, 22, 22 + user_id_length) or "\0")
      end
    end
    at_once = math.min(2 * at_once, 16, math.floor((1048576 - size) * count / math.max(size, 1)))
  end
  if count == 0 then return 0 end
  -- While a cluster moves this slot, a key may be elsewhere already: these two fail on that, with nothing written yet.
  if #lists > 0 then redis.call("EXISTS", unpack(lists)) end
  redis.call("DEL", unpack(views))
  redis.call("HDEL", login, unpack(sids, 1, count))
  for _, name in ipairs({ expire, recent, online_seen, online_user }) do
    if name == order then
      redis.call("ZREMRANGEBYRANK", name, 0, count - 1)
    else
      redis.call("ZREM", name, unpack(sids, 1, count))
    end
  end
  local note = told_for[reason] and reason .. " " .. text(now) .. " " .. (words or "")
  for index, name in ipairs(lists) do
    redis.call("ZREM", name, members[index])
    -- pcall: it is gone, whatever becomes of the note.
    if note then redis.pcall("SET", ended_of .. members[index], note, "PX", told_for[reason]) end
  end
  if reason and there > 0 then
    for _, part in ipairs({ reason, there, table.concat(notes) }) do table.insert(ended, part) end
    -- pcall: they are gone, whatever becomes of the count.
    redis.pcall("HINCRBY", totals, reason, there)
  end
  return count
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

-- What a list shows of a session: sid, login time, last seen, deadline, newest viewed item, record. Nothing (nil) where
-- it has no record or no deadline: then it is none, whatever the server has thrown away.
local function row_of(sid, record)
  local deadline = record and redis.call("ZSCORE", expire, sid)
  if not deadline then return nil end
  local login_time = redis.call("ZSCORE", online_user, sid) or ""
  local seen = redis.call("ZSCORE", recent, sid) or login_time
  return { sid, login_time, seen, deadline, redis.call("ZRANGE", viewed_by .. sid, -1, -1)[1] or "", record }
end

-- The rows of sids from one place of a list on, but no more than a megabyte of records, and how many sids those are.
local function rows_of(sids, from)
  local rows, size, count = {}, 0, 0
  while from + count <= #sids and size <= 1048576 do
    local sid = sids[from + count]
    local record = redis.call("HGET", login, sid)
    size = size + (record and #record or 0)
    rows[#rows + 1] = row_of(sid, record)
    count = count + 1
  end
  return rows, count
end
