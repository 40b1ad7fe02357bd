-- Read a session, and note that it was seen.
-- ARGV: sid; "" to leave no trace, "seen" to note that it was seen, "active" to prolong it too; interval between two
-- notes, idle and absolute limit (milliseconds), 1 if Django's deadline moves too.
-- Reply: record, 1 if its cookie is to be sent again; or false, why it is gone.
-- include partition.lua
local sid, touch, sliding = ARGV[1], ARGV[2], ARGV[6] == "1"
local policy = policy_from(ARGV[3], ARGV[4], ARGV[5])

local record = live_record(sid)
if not record then
  local note, deadline = note_of(sid), redis.call("ZSCORE", expire, sid)
  -- It may be due, and nobody has taken it out yet.
  if note == "" and deadline and user_of(redis.call("HGET", login, sid)) ~= "" then note = "expired " .. deadline end
  return { false, note }
end
if touch == "" then return { record, 0 } end

-- pcall: a server that is full, or a replica, refuses these writes, and still serves the read.
local since_seen = now - (redis.call("ZSCORE", recent, sid) or 0)
if since_seen >= policy.interval then
  redis.pcall("ZADD", recent, "XX", "GT", text(now), sid)
  redis.pcall("ZADD", online_seen, "XX", "GT", text(now), sid)
end
if touch ~= "active" or not (sliding or policy.idle > 0 or policy.absolute > 0) then return { record, 0 } end

-- Apart from the note above: else a passive request just before would keep this one from prolonging the session.
local django_deadline, age = django_times(record)
sliding = sliding and age > 0
local later = sliding and now + age + policy.interval or django_deadline
local before = tonumber(redis.call("ZSCORE", expire, sid))
local due = due_at(later, redis.call("ZSCORE", online_user, sid), policy)
local moved = due - before
if moved ~= 0 and math.abs(moved) >= policy.interval then
  redis.pcall("ZADD", expire, "XX", text(due), sid)
elseif moved ~= 0 or since_seen < policy.interval then
  return { record, 0 }
end
-- Nobody noted when the cookie was sent last. Its age is cut into tenths from the record's writing on, and the first
-- request in each sends it again: what the deadline moved by is the time since the request before.
local tenth, since_saved = age / 10, now - (django_deadline - age)
local before_this = math.max(0, since_saved - (moved > 0 and moved or since_seen))
local refresh = sliding and math.floor(since_saved / tenth) > math.floor(before_this / tenth)
return { record, refresh and 1 or 0 }
