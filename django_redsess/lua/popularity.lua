-- Count the items that were viewed at least so often. KEYS: viewed. ARGV: views. Reply: how many.
return redis.call("ZCOUNT", KEYS[1], "-inf", -ARGV[1])
