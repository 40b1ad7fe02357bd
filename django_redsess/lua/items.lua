-- Read items by rank. KEYS: a sorted set of items. ARGV: first and last rank, "REV" for the highest score first
-- (or ""). Reply: item, score, item, score, …
if ARGV[3] == "REV" then return redis.call("ZRANGE", KEYS[1], ARGV[1], ARGV[2], "REV", "WITHSCORES") end
return redis.call("ZRANGE", KEYS[1], ARGV[1], ARGV[2], "WITHSCORES")
