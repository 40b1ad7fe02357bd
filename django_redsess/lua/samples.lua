-- Read the notes of who was online. KEYS: samples. ARGV: since how many milliseconds ago.
-- Reply: notes, the earliest first.
local time = redis.call("TIME")
return redis.call("ZRANGE", KEYS[1], string.format("%.0f", time[1] * 1000 - ARGV[1]), "+inf", "BYSCORE")
