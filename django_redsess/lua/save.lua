-- Replace the record of a session that is still there.
-- ARGV: sid, record, user id or "", age, date or "". Reply: 1, or 0 when it is gone or due; then nothing is written.
-- include partition.lua
local sid, record, user_id = ARGV[1], ARGV[2], ARGV[3]
local deadline = deadline_from(ARGV[4], ARGV[5])

local found = live_record(sid)
if not found then return 0 end
local user_before = user_of(found)
if user_before ~= user_id then sign_out(sid, user_before) end
put(sid, record, user_id, deadline)
return 1
