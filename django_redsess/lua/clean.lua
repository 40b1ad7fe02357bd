-- Clean up beside a new session: end sessions that are due, then those that are too many.
-- KEYS: see partition.lua. ARGV: as evict.lua; the limit is for both together.
-- Reply: how many are still too many, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include excess.lua
local maximum, reserve, guests_maximum = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, quiet = tonumber(ARGV[4]), ARGV[5] ~= "1"
limit = limit - remove(due(limit), "expired", expire, quiet)
return with_ended(evict(maximum, reserve, guests_maximum, limit, quiet))
