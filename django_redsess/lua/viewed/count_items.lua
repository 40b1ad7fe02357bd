-- Count the items that were viewed at least so often.
-- KEYS: totals popularity
-- ARGV: at_least
-- Reply: how many, the views of all items together, and the second of the first view; 0 before it.
local views, since = unpack(redis.call("HMGET", totals, "views", "views_since"))
return { redis.call("ZCOUNT", popularity, "-inf", -at_least), views or 0, since or 0 }
