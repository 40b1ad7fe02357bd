-- Count the items that were viewed at least so often. KEYS: viewed totals. ARGV: views.
-- Reply: how many, and the views of all items together.
return { redis.call("ZCOUNT", KEYS[1], "-inf", -ARGV[1]), redis.call("HGET", KEYS[2], "views") or 0 }
