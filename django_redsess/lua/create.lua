-- Add a session; the only way in. Takes out up to two that are due and two above the maximum, so that the store stays
-- bounded though no cleaner runs.
-- ARGV: sid, record, user id or "", age, date or "", maximum. Reply: 1, or 0 when another session has that sid.
-- include partition.lua
local sid, record, user_id, maximum = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6])
local deadline = deadline_from(ARGV[4], ARGV[5])

local found = redis.call("HGET", login, sid)
if found then return same_revision(found, record) and 1 or 0 end
remove(due(2))
remove(excess(maximum - 1, 2))
put(sid, record, user_id, deadline)
return 1
