-- Note that a session viewed an item, and count the view; note that the session was seen, too.
-- KEYS: those of partition.lua, then the popularity to count in, if it is in this partition. ARGV: sid; then as load.lua
-- from its second on; item, how many items to keep.
-- Reply: 1, or 0 when the session is gone or due, and then nothing is written; 1 if its cookie is to be sent again.
-- include partition.lua
-- include record.lua
-- include seen.lua
local sid, how, item, keep = ARGV[1], ARGV[2], ARGV[7], ARGV[8]
local policy, sliding = policy_from(ARGV[3], ARGV[4], ARGV[5]), ARGV[6] == "1"

local record, deadline = live_record(sid)
if not record then return { 0, 0 } end
local refresh = touch(sid, record, deadline, how, policy, sliding)
note_view(sid, item, keep, KEYS[11])
return { 1, refresh and 1 or 0 }
