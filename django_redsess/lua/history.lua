-- Read what a live session viewed, the newest first. KEYS: see partition.lua. ARGV: sid, how many.
-- Reply: item, time, item, time, …
-- include partition.lua
-- include user.lua
-- include record.lua
local sid, limit = ARGV[1], ARGV[2]
return in_time(sid) and redis.call("ZRANGE", viewed_by .. sid, 0, limit - 1, "REV", "WITHSCORES") or {}
