-- Count who is online, and read the notes of who was.
-- KEYS: those of partition.lua, then samples. ARGV: since how many milliseconds ago.
-- Reply: the time, how many are signed in, how many are guests; and notes, the earliest first: see sample.lua.
-- include partition.lua
local samples = KEYS[11]

local signed_in = redis.call("ZCARD", online_user)
local notes = redis.call("ZRANGE", samples, text(now - ARGV[1]), "+inf", "BYSCORE")
return { text(now), signed_in, redis.call("ZCARD", guests), notes }
