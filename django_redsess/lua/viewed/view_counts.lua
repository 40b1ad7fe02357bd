-- Read how often items were viewed.
-- KEYS: popularity
-- ARGV: items...
-- Reply: a score for each, negative, or false.
return redis.call("ZMSCORE", popularity, unpack(items))
