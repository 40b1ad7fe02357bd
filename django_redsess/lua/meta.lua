-- Read what must be the same wherever a store is used. The first to ask writes it. It is enough if the store knows one
-- of the secret keys: so a key can be replaced while processes run that only have the old one. The newest eight are
-- known.
-- KEYS: meta. ARGV: number of partitions, format of records, "1" to take a new key that the store does not know; then
-- the fingerprints of the key and its fallbacks.
-- Reply: the first two, as the store has them; "1" if it knows one of these keys, else ""; the reply of TIME.
-- pcall: a server that is full, or a replica, refuses these writes, and still serves reads.
redis.pcall("HSETNX", KEYS[1], "partitions", ARGV[1])
redis.pcall("HSETNX", KEYS[1], "format", ARGV[2])
local found = redis.call("HMGET", KEYS[1], "partitions", "format", "keys")

local known, keys = {}, {}
for key in string.gmatch(found[3] or "", "%x+") do
  known[key] = true
  keys[#keys + 1] = key
end
local agrees = #keys == 0 or ARGV[3] == "1"
for index = 4, #ARGV do agrees = agrees or known[ARGV[index]] end
if agrees and not known[ARGV[4]] then
  keys[#keys + 1] = ARGV[4]
  redis.pcall("HSET", KEYS[1], "keys", table.concat(keys, " ", math.max(1, #keys - 7)))
end
return { found[1] or ARGV[1], found[2] or ARGV[2], agrees and "1" or "", redis.call("TIME") }
