-- End sessions that are too many: guests' first, the longest unseen first.
-- ARGV: maximum:number reserve:number guests_maximum:number limit:number named:flag
-- The first three say how many there may be, see too_many. At most `limit` end. `named` asks for whom it ended.
-- Reply: how many are still too many. See with_ended.
-- needs: eviction, remove
return with_ended(evict(maximum, reserve, guests_maximum, limit, not named))
