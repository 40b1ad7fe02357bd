--- agreement: Read what a site and its store must agree on. It is enough if the store knows one of the secret keys: so
-- a key can be replaced while processes run that only have the old one. The store knows eight.
-- KEYS: meta
-- ARGV: partitions format begins:flag takes_key:flag fingerprints...
-- The number of partitions, and the format of records. The fingerprints are of the secret key, then of its fallbacks.
-- `begins` writes what is missing. `takes_key` makes the store take a new key that it does not know.
-- Reply: number of partitions and format, as the store has them, or "" if they are missing; "1" if it knows one of these
-- keys, else ""; the reply of TIME. Or an error, if another program has written the number or the format.
-- It uses no block of other files. pcall: a full server, or a replica, refuses these writes and still serves reads.
if begins then
  redis.pcall("HSETNX", meta, "partitions", partitions)
  redis.pcall("HSETNX", meta, "format", format)
end
local found = redis.call("HMGET", meta, "partitions", "format", "keys")
-- A foreign value gets the same error as a key of another type.
if not string.match(found[1] or partitions, "^%d%d?%d?%d?$") or not string.match(found[2] or format, "^%w%w?$") then
  return redis.error_reply("WRONGTYPE " .. meta .. " has what no release of django-redsess writes")
end
if not (begins or found[1]) then return { "", "", "", redis.call("TIME") } end

local known, keys, newest = {}, {}, fingerprints[1]
for key in string.gmatch(found[3] or "", "%x+") do
  known[key] = true
  keys[#keys + 1] = key
end
local agrees = #keys == 0 or takes_key
for _, key in ipairs(fingerprints) do agrees = agrees or known[key] end
if agrees and not known[newest] then
  keys[#keys + 1] = newest
  redis.pcall("HSET", meta, "keys", table.concat(keys, " ", math.max(1, #keys - 7)))
end
return { found[1] or partitions, found[2] or format, agrees and "1" or "", redis.call("TIME") }
