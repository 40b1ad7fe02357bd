-- Read a session, and note that it was seen.
-- ARGV: sid; "" to leave no trace, "seen" to note that it was seen, "active" to prolong it too; interval between two
-- notes, idle and absolute limit (milliseconds), 1 if Django's deadline moves too.
-- Reply: record, 1 if its cookie is to be sent again; or false, why it is gone.
-- include partition.lua
local sid, how, interval = ARGV[1], ARGV[2], tonumber(ARGV[3])
local prolongs = how == "active" and not (ARGV[4] == "0" and ARGV[5] == "0" and ARGV[6] == "0")

local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
local record = deadline > now and redis.call("HGET", login, sid)
-- Most requests need no more than this: it stands before all that the others need.
if record and not prolongs and (how == "" or now - (redis.call("ZSCORE", recent, sid) or 0) < interval) then
  return { record, 0 }
end

-- include record.lua
-- include seen.lua
if not record then
  local note = note_of(sid)
  -- It may be due, and nobody has taken it out yet.
  if note == "" and deadline > 0 and user_of(redis.call("HGET", login, sid)) ~= "" then
    note = "expired " .. text(deadline)
  end
  return { false, note }
end
local policy, sliding = policy_from(ARGV[3], ARGV[4], ARGV[5]), ARGV[6] == "1"
return { record, touch(sid, record, deadline, how, policy, sliding) and 1 or 0 }
