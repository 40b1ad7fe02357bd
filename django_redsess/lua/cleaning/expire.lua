-- End sessions that are due.
-- ARGV: limit named:flag
-- At most `limit` end. `named` asks for whom it ended.
-- Reply: 1 if more are due, else 0. See with_ended.
-- needs: partition, clock, deadlines, remove
remove(due_sids(limit), "expired", expire, not named)
local first = first_deadline()
return with_ended(first and first <= now and 1 or 0)
