-- Note that a session viewed an item, and count the view.
-- KEYS: those of partition.lua, then the popularity to count in, if it is in this partition. ARGV: sid, item, how many
-- items to keep. Reply: 1, or 0 when the session is gone or due; then nothing is written.
-- include partition.lua
local popularity, sid, item, keep = KEYS[11], ARGV[1], ARGV[2], tonumber(ARGV[3])

if not in_time(sid) or redis.call("HEXISTS", login, sid) == 0 then return 0 end
local viewed = viewed_by .. sid
-- After the newest, even if the clock has stepped back: else what was just viewed could be the first to be trimmed.
local newest = redis.call("ZRANGE", viewed, -1, -1, "WITHSCORES")
local at = newest[2] and math.max(now, newest[2] + 1) or now
redis.call("ZADD", viewed, text(at), item)
redis.call("ZREMRANGEBYRANK", viewed, 0, -keep - 1)
if popularity then redis.call("ZINCRBY", popularity, -1, item) end
return 1
