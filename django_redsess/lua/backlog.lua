-- Count what there is to clean. KEYS: see partition.lua. Reply: how many sessions are due, and how many there are.
-- include partition.lua
return { redis.call("ZCOUNT", expire, "-inf", text(now)), redis.call("ZCARD", recent) }
