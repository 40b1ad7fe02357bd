-- Give a session a new sid and a new record at once: it takes its login time, last seen and viewed items along.
-- ARGV: old sid, new sid, record, user id or "", age, date or "". Reply: 1, or 0 when it is gone or due.
-- include partition.lua
local old_sid, sid, record, user_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local deadline = deadline_from(ARGV[5], ARGV[6])

local found = redis.call("HGET", login, sid)
if found then return same_revision(found, record) and 1 or 0 end
local old_record = live_record(old_sid)
if not old_record then return 0 end
local login_time = user_of(old_record) == user_id and redis.call("ZSCORE", online_user, old_sid)
-- The new one first: a server that is full refuses it, and then the old one is as it was.
put(sid, record, user_id, deadline, login_time)
if redis.call("EXISTS", viewed_by .. old_sid) == 1 then
  redis.call("RENAME", viewed_by .. old_sid, viewed_by .. sid)
end
remove({ old_sid })
return 1
