-- How often items were viewed by all visitors. The script's KEYS have `popularity` and `totals`.

-- Up to two of the least viewed items besides this one, and how many views they have. Among items with equally many
-- views, `turn` chooses: it is another number each time. If the last in the order of bytes went always, no new item
-- with such a name would ever stay.
local function least_viewed(item, count, turn)
  local card = redis.call("ZCARD", popularity)
  local lowest = redis.call("ZRANGE", popularity, -1, -1, "WITHSCORES")[2]
  local level = redis.call("ZCOUNT", popularity, lowest, lowest)
  local last = card - 1 - turn * 7919 % math.max(1, level - 2)
  local candidates, leaving, views = redis.call("ZRANGE", popularity, math.max(0, last - 2), last, "WITHSCORES"), {}, 0
  for at = #candidates - 1, 1, -2 do
    if candidates[at] ~= item and #leaving < math.min(count, 2) then
      leaving[#leaving + 1] = candidates[at]
      views = views - candidates[at + 1]
    end
  end
  return leaving, views
end

-- Count a view of an item. If there are more items than `items_max`, two of the least viewed go with each new one. So
-- their number is bounded without a cleaner.
local function count_view(item, items_max)
  local is_new = tonumber(redis.call("ZINCRBY", popularity, -1, item)) == -1
  local total = redis.call("HINCRBY", totals, "views", 1)
  if total == 1 then redis.call("HSET", totals, "views_since", redis.call("TIME")[1]) end
  local above = is_new and redis.call("ZCARD", popularity) - items_max or 0
  if above <= 0 then return end
  local leaving, views = least_viewed(item, above, total)
  if #leaving == 0 then return end
  redis.call("ZREM", popularity, unpack(leaving))
  redis.call("HINCRBY", totals, "views", string.format("%.0f", -views))
end
