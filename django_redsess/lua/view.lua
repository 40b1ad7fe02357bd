-- Note that a session viewed an item, and count the view.
-- KEYS: those of partition.lua, then the popularity to count in, if it is in this partition.
-- ARGV: sid, item, how many items a session keeps, how many there may be in all.
-- Reply: 1; or 0 where the session is gone or due, and nothing is written.
-- include partition.lua
-- include popular.lua
-- include viewed.lua
local sid, item, keep, items_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lives = tonumber(redis.call("ZSCORE", expire, sid) or 0) > now and redis.call("HEXISTS", login, sid) == 1
if lives then note_view(sid, item, keep, items_max, KEYS[11]) end
return lives and 1 or 0
