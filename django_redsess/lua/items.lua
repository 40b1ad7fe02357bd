-- Read items by rank.
-- KEYS: a sorted set of items. ARGV: first and last rank, then "REV" for the highest score first, or nothing.
-- Reply: item, score, item, score, …
return redis.call("ZRANGE", KEYS[1], ARGV[1], ARGV[2], "WITHSCORES", unpack(ARGV, 3))
