-- Read items by rank.
-- KEYS: items
-- ARGV: first last
-- `items` is a sorted set of them.
-- Reply: item, score, item, score, …
return redis.call("ZRANGE", items, first, last, "WITHSCORES")
