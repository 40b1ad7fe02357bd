-- Count a view of an item whose popularity is in another partition than its session. KEYS: viewed totals. ARGV: item.
redis.call("ZINCRBY", KEYS[1], -1, ARGV[1])
redis.call("HINCRBY", KEYS[2], "views", 1)
return 1
