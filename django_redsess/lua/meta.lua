-- Read what must be the same wherever a store is used; the first to ask writes it.
-- KEYS: meta. ARGV: number of partitions, format of records. Reply: the same two, as the store has them.
-- pcall: a server that is full, or a replica, refuses these writes, and still serves reads.
redis.pcall("HSETNX", KEYS[1], "partitions", ARGV[1])
redis.pcall("HSETNX", KEYS[1], "format", ARGV[2])
local found = redis.call("HMGET", KEYS[1], "partitions", "format")
return { found[1] or ARGV[1], found[2] or ARGV[2] }
