-- Clean up beside a new session: end sessions that are due, then those that are too many.
-- ARGV: maximum:number reserve:number guests_maximum:number limit:number named:flag
-- The arguments are as in evict.lua. `limit` is for both together.
-- Reply: how many are still too many. See with_ended.
-- needs: partition, deadlines, remove, eviction
local taken = remove(due_sids(limit), "expired", expire, not named)
return with_ended(evict(maximum, reserve, guests_maximum, limit - taken, not named))
