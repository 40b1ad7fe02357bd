-- The items that sessions viewed, and how often.
-- Other names: KEYS and ARGV of a script are locals of it. MOVED_MS, deadline_ahead, digits, now and with_ended are in
-- common.lua, relieve, says_full and spared in eviction.lua.

-- Read a stored count. Another program may have written any text, and any score. A text that is no number counts 0.
local function count_in(stored)
  local count = tonumber(stored) or 0
  return count == count and math.max(-(2 ^ 53), math.min(count, 2 ^ 53)) or 0
end

-- Take the views of removed items off the number of all views. pcall: another program may have written any text there.
local function uncount(views)
  redis.pcall("HINCRBY", totals, "views", digits(-views))
end

-- How often items were viewed by all visitors. The script's KEYS have `popularity` and `totals`.

-- Up to two of the least viewed items besides this one, and how many views they have. Among items with equally many
-- views, `turn` chooses: it is another number each time. If the last in the order of bytes always went, no new item with
-- such a name would ever stay.
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
  -- pcall: another program may have stored anything as this number.
  local total = redis.pcall("HINCRBY", totals, "views", 1)
  if type(total) ~= "number" then total = now end
  if total == 1 then
    redis.call("HSET", totals, "views_since", redis.call("TIME")[1] + math.floor(MOVED_MS / 1000))
  end
  local above = is_new and redis.call("ZCARD", popularity) - items_max or 0
  if above <= 0 then return end
  local leaving, views = least_viewed(item, above, total)
  if #leaving == 0 then return end
  redis.call("ZREM", popularity, unpack(leaving))
  redis.pcall("HINCRBY", totals, "views", string.format("%.0f", -views))
end

-- The items that a session viewed. The script's KEYS have `popularity`, or nil if another partition counts the views
-- of the item.

-- Record that a session viewed an item, and count the view. A session keeps its newest `keep` items.
local function record_view(sid, item, keep, items_max)
  local items = viewed_by .. sid
  -- Later than the newest, even if the clock has stepped back: else this item could be the first to be trimmed.
  local newest = redis.call("ZRANGE", items, -1, -1, "WITHSCORES")
  redis.call("ZADD", items, digits(newest[2] and math.max(now, newest[2] + 1) or now), item)
  redis.call("ZREMRANGEBYRANK", items, 0, -keep - 1)
  if popularity then count_view(item, items_max) end
end

-- About how many bytes one item takes, in the list of its session and in the count of all views.
local entries_of_item = 300

-- Record a view, as the first write of a script. On a full server, guests' sessions are ended, and it is recorded then.
local function first_view(sid, item, keep, items_max)
  spared[sid] = true
  local done, failure = pcall(record_view, sid, item, keep, items_max)
  if done then return end
  if not says_full(failure) then error(failure, 0) end
  relieve(entries_of_item)
  record_view(sid, item, keep, items_max)
end

--- record_view: Record that a session viewed an item, and count the view.
-- KEYS: partition popularity?
-- ARGV: sid item keep items_max
-- A session keeps so many items, and there may be `items_max` in all. `popularity` is given if the item's views are
-- counted in this partition.
-- Reply: 1; or 0 if the session is gone or due, and nothing is written. See with_ended.
local lives = deadline_ahead(sid) and redis.call("HEXISTS", login, sid) == 1
if lives then first_view(sid, item, keep, items_max) end
return with_ended(lives and 1 or 0)

--- count_view: Count a view of an item whose views are counted in another partition than its session's.
-- KEYS: totals popularity
-- ARGV: item items_max
-- There may be `items_max` items in all.
-- Reply: 1; or 0 if the server is full, and nothing is counted.
local done, failure = pcall(count_view, item, items_max)
if not done and not says_full(failure) then error(failure, 0) end
return done and 1 or 0

--- recent_items: Read what a live session viewed, the newest first.
-- KEYS: partition
-- ARGV: sid limit
-- At most `limit` items; 0 stands for all.
-- Reply: item, time, item, time, …
return deadline_ahead(sid) and redis.call("ZRANGE", viewed_by .. sid, 0, limit - 1, "REV", "WITHSCORES") or {}

--- forget_items: Forget what a session viewed.
-- KEYS: items
-- ARGV: item?
-- `items` are those that it viewed. Without an item, all are forgotten.
-- Reply: how many items were forgotten.
if item then return redis.call("ZREM", items, item) end
local count = redis.call("ZCARD", items)
redis.call("DEL", items)
return count

--- view_counts: Read how often items were viewed.
-- KEYS: popularity
-- ARGV: items...
-- Reply: a score for each, negative, or false.
return redis.call("ZMSCORE", popularity, unpack(items))

--- items_by_rank: Read items by rank.
-- KEYS: items
-- ARGV: first last
-- `items` is a sorted set of them.
-- Reply: item, score, item, score, …
return redis.call("ZRANGE", items, first, last, "WITHSCORES")

--- count_items: Count the items that were viewed at least so often.
-- KEYS: totals popularity
-- ARGV: at_least
-- Reply: how many, the views of all items together, and the second of the first view; 0 before it.
local views, since = unpack(redis.call("HMGET", totals, "views", "views_since"))
return {
  redis.call("ZCOUNT", popularity, "-inf", -at_least), math.max(0, count_in(views)), math.max(0, count_in(since)),
}

--- trim_items: Remove the least viewed items.
-- KEYS: totals popularity
-- ARGV: keep:number limit:number
-- `keep` items stay. At most `limit` are removed.
-- Reply: how many it removed, and how many are still too many.
local above = redis.call("ZCARD", popularity) - keep
local count, views = math.max(0, math.min(above, limit)), 0
if count > 0 then
  local removed = redis.call("ZPOPMAX", popularity, count)
  for at = 2, #removed, 2 do views = views - count_in(removed[at]) end
  uncount(count_in(views))
end
return { count, math.max(0, above - count) }

--- reset_counts: Forget how often items were viewed.
-- KEYS: totals popularity
-- ARGV: items...
-- No items stands for all.
-- Reply: how many views were removed.
local views = 0
if #items == 0 then
  views = count_in(redis.call("HGET", totals, "views"))
  -- UNLINK: memory is freed in the background, however many items there are.
  redis.call("UNLINK", popularity)
  redis.call("HDEL", totals, "views", "views_since")
  return views
end
for _, score in ipairs(redis.call("ZMSCORE", popularity, unpack(items))) do views = views - count_in(score) end
views = count_in(views)
if redis.call("ZREM", popularity, unpack(items)) > 0 then uncount(views) end
return views
