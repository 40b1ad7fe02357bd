-- Note that a session viewed an item, and count the view; note that the session was seen, too.
-- KEYS: those of partition.lua, then the popularity to count in, if it is in this partition. ARGV: sid; then as load.lua
-- from its second on; item, how many of these to keep, and of all items.
-- Reply: 1, or 0 when the session is gone or due, and then nothing is written; 1 if its cookie is to be sent again.
-- include partition.lua
-- include user.lua
-- include seen.lua
-- include popular.lua
-- include viewed.lua
local sid, how, item, keep, items_max = ARGV[1], ARGV[2], ARGV[7], ARGV[8], ARGV[9]
local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
local record = deadline > now and redis.call("HGET", login, sid)
if not record then return { 0, 0 } end
local since_seen = how ~= "" and since_seen_of(sid)
if since_seen then note_seen(sid, record, since_seen, tonumber(ARGV[3])) end
note_view(sid, item, keep, items_max, KEYS[11])
if not prolongs(how, ARGV[4], ARGV[5], ARGV[6]) then return { 1, 0 } end

-- include record.lua
-- include prolong.lua
local policy = policy_from(ARGV[3], ARGV[4], ARGV[5])
return { 1, prolong(sid, record, deadline, since_seen, policy, ARGV[6] == "1") and 1 or 0 }
