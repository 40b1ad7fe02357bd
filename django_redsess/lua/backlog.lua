-- Count what there is to clean.
-- KEYS: see partition.lua. ARGV: how many of those that are due to look at, for whose they are.
-- Reply: how many sessions are due, how many have a user, how many are guests'; how many it looked at, and how many of
-- these are guests'.
-- include partition.lua
local sids, of_guests = redis.call("ZRANGE", expire, "-inf", text(now), "BYSCORE", "LIMIT", 0, ARGV[1]), 0
for _, seen in ipairs(#sids > 0 and redis.call("ZMSCORE", guests, unpack(sids)) or {}) do
  of_guests = of_guests + (seen and 1 or 0)
end
return {
  redis.call("ZCOUNT", expire, "-inf", text(now)), redis.call("ZCARD", recent), redis.call("ZCARD", guests),
  #sids, of_guests,
}
