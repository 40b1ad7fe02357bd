-- List some names of keys. ARGV: cursor, pattern, about how many. Reply: see SCAN.
return redis.call("SCAN", ARGV[1], "MATCH", ARGV[2], "COUNT", ARGV[3])
