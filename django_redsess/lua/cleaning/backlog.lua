-- Count what there is to clean.
-- ARGV: sampled
-- Of so many due sessions it is looked up whether they are guests'.
-- Reply: how many sessions are due; how many have a user; how many are guests'; how many were looked up; how many of
-- these are guests'.
-- needs: partition, clock
local sids, of_guests = redis.call("ZRANGE", expire, "-inf", digits(now), "BYSCORE", "LIMIT", 0, sampled), 0
for _, seen_at in ipairs(#sids > 0 and redis.call("ZMSCORE", guests, unpack(sids)) or {}) do
  of_guests = of_guests + (seen_at and 1 or 0)
end
return {
  redis.call("ZCOUNT", expire, "-inf", digits(now)), redis.call("ZCARD", recent), redis.call("ZCARD", guests),
  #sids, of_guests,
}
