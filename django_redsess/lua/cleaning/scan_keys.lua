-- List some names of keys.
-- ARGV: cursor pattern about
-- `about` is roughly how many.
-- Reply: that of SCAN.
return redis.call("SCAN", cursor, "MATCH", pattern, "COUNT", about)
