-- Read a session, and note that it was seen.
-- ARGV: sid; "" to leave no trace, "seen" to note that it was seen, "active" to prolong it too; interval between two
-- notes, idle and absolute limit (milliseconds), 1 if Django's deadline moves too.
-- Reply: record, 1 if its cookie is to be sent again; or false, why it is gone.
-- include partition.lua
-- include seen.lua
local sid, how = ARGV[1], ARGV[2]
local policy, sliding = policy_from(ARGV[3], ARGV[4], ARGV[5]), ARGV[6] == "1"

local record, deadline = live_record(sid)
if not record then
  local note, due = note_of(sid), redis.call("ZSCORE", expire, sid)
  -- It may be due, and nobody has taken it out yet.
  if note == "" and due and user_of(redis.call("HGET", login, sid)) ~= "" then note = "expired " .. due end
  return { false, note }
end
return { record, touch(sid, record, deadline, how, policy, sliding) and 1 or 0 }
