-- Stands behind record.lua: how long a session that is seen lives on.

-- Move the deadline of a session (before) that is seen now, and was since_seen milliseconds ago. Returns whether its
-- cookie is to be sent again.
local function prolong(sid, record, before, since_seen, policy, sliding)
  -- Apart from the note that it was seen: else a passive request just before would keep this one from prolonging.
  local django_deadline, age = django_times(record)
  sliding = sliding and age > 0
  -- By a clock that was stepped back it was last seen ahead of now, and then no deadline moves earlier.
  local seen = now - math.min(0, since_seen)
  local later = sliding and seen + age + policy.interval or django_deadline
  local login_time = policy.absolute > 0 and redis.call("ZSCORE", online_user, sid)
  local due = due_at(later, login_time, policy, seen)
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
