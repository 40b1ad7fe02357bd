-- Count a view of an item whose popularity is in another partition than its session. KEYS: viewed. ARGV: item.
redis.call("ZINCRBY", KEYS[1], -1, ARGV[1])
return 1
