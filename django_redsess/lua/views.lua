-- Read how often items were viewed. KEYS: viewed. ARGV: items. Reply: a score, negative, or false for each.
return redis.call("ZMSCORE", KEYS[1], unpack(ARGV))
