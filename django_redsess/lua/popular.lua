-- How often items were viewed, of all visitors.

-- Two at most of the least viewed items besides this one; of many that are level not always those that come last in the
-- order of bytes, or none of these would ever stay. `turn` is another number each time.
local function least_viewed(popularity, item, count, turn)
  local card = redis.call("ZCARD", popularity)
  local lowest = redis.call("ZRANGE", popularity, -1, -1, "WITHSCORES")[2]
  local level = redis.call("ZCOUNT", popularity, lowest, lowest)
  local last = card - 1 - turn * 7919 % math.max(1, level - 2)
  local candidates, going, views = redis.call("ZRANGE", popularity, math.max(0, last - 2), last, "WITHSCORES"), {}, 0
  for at = #candidates - 1, 1, -2 do
    if candidates[at] ~= item and #going < math.min(count, 2) then
      going[#going + 1] = candidates[at]
      views = views - candidates[at + 1]
    end
  end
  return going, views
end

-- Count a view of an item. Of more items than `limit`, two of the least viewed go with each new one, so that these stay
-- bounded though no cleaner runs.
local function count_view(popularity, totals, item, limit)
  local is_new = tonumber(redis.call("ZINCRBY", popularity, -1, item)) == -1
  local total = redis.call("HINCRBY", totals, "views", 1)
  local above = is_new and redis.call("ZCARD", popularity) - limit or 0
  if above <= 0 then return end
  local going, views = least_viewed(popularity, item, above, total)
  if #going == 0 then return end
  redis.call("ZREM", popularity, unpack(going))
  redis.call("HINCRBY", totals, "views", string.format("%.0f", -views))
end
