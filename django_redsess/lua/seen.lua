-- Stands behind record.lua: what is noted of a session that is there, without writing its record.

-- Note that a session was seen now, unless it was less than an interval ago. Returns how long ago it was.
-- pcall: a server that is full, or a replica, refuses these writes, and still serves the read.
local function note_seen(sid, record, interval)
  local since_seen = now - (redis.call("ZSCORE", recent, sid) or 0)
  if since_seen >= interval then
    redis.pcall("ZADD", recent, "GT", text(now), sid)
    if user_of(record) ~= "" then redis.pcall("ZADD", online_seen, "GT", text(now), sid) end
  end
  return since_seen
end

-- Note that a session was seen now: "seen" for no more than that, "active" to move its deadline (before) too, "" for
-- nothing. Returns whether its cookie is to be sent again.
local function touch(sid, record, before, how, policy, sliding)
  if how == "" then return false end
  local since_seen = note_seen(sid, record, policy.interval)
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
