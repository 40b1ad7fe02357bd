-- Count the items that were viewed at least so often.
-- KEYS: totals popularity
-- ARGV: at_least
-- Reply: how many, and the views of all items together.
return { redis.call("ZCOUNT", popularity, "-inf", -at_least), redis.call("HGET", totals, "views") or 0 }
