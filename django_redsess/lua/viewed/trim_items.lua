-- Remove the least viewed items.
-- KEYS: totals popularity
-- ARGV: keep:number limit:number
-- So many items stay. At most `limit` are removed.
-- Reply: how many it removed, and how many are still too many.
local above = redis.call("ZCARD", popularity) - keep
local count, views = math.max(0, math.min(above, limit)), 0
if count > 0 then
  local removed = redis.call("ZPOPMAX", popularity, count)
  for at = 2, #removed, 2 do views = views - removed[at] end
  redis.call("HINCRBY", totals, "views", string.format("%.0f", -views))
end
return { count, math.max(0, above - count) }
