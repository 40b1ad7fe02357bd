-- Read a session, and note that it was seen.
-- ARGV: sid; "" to leave no trace, "seen" to note that it was seen, "active" to prolong it too; interval between two
-- notes, idle and absolute limit (milliseconds), 1 if Django's deadline moves too.
-- Reply: record, 1 if its cookie is to be sent again; or false, why it is gone.
-- include partition.lua
-- include user.lua
-- include seen.lua
local sid, how = ARGV[1], ARGV[2]
local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
local record = deadline > now and redis.call("HGET", login, sid)
local since_seen = record and how ~= "" and since_seen_of(sid)
if since_seen then note_seen(sid, record, since_seen, tonumber(ARGV[3])) end
-- With the default settings that is all, so it stands before what else there may be to do.
if record and not prolongs(how, ARGV[4], ARGV[5], ARGV[6]) then return { record, 0 } end

-- include record.lua
-- include prolong.lua
if record then
  local policy = policy_from(ARGV[3], ARGV[4], ARGV[5])
  return { record, prolong(sid, record, deadline, since_seen, policy, ARGV[6] == "1") and 1 or 0 }
end
local note = note_of(sid)
-- It may be due, and nobody has taken it out yet.
if note == "" and deadline > 0 and user_of(redis.call("HGET", login, sid)) ~= "" then
  note = "expired " .. text(deadline)
end
return { false, note }
