-- Add a session under a sid that nobody can have had. Most creates are this short one: see saving.py.
-- KEYS: login expire totals, then guests; or, for a user, recent online:user "online:user:" in its place.
-- ARGV: sid, record, the time by which it was made, deadline, user id or "", "1". A repetition leaves out the "1".
-- Reply: 1. Or nothing is written: the time to go by, as text; or 0, and create.lua is to be asked.
if not ARGV[6] then return 0 end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- include latest.lua
local sid, at = ARGV[1], ARGV[3]
local seen = now_or_latest(KEYS[4])
if not agrees(seen, at) then return string.format("%.0f", seen) end
-- pcall: a server that is full refuses it, and create.lua can make room.
if type(redis.pcall("HSET", KEYS[1], sid, ARGV[2])) == "table" then return 0 end
redis.call("ZADD", KEYS[2], ARGV[4], sid)
redis.call("ZADD", KEYS[4], at, sid)
if ARGV[5] ~= "" then
  redis.call("ZADD", KEYS[5], at, sid)
  redis.call("ZADD", KEYS[6] .. ARGV[5], at, sid)
end
redis.call("HINCRBY", KEYS[3], "created", 1)
return 1
