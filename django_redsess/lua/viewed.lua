-- The items that sessions viewed, and how often.

-- A count that is stored; another program may have written any text, and any score. What is no number is 0.
local function count_in(stored)
  local count = tonumber(stored) or 0
  return count == count and math.max(-(2 ^ 53), math.min(count, 2 ^ 53)) or 0
end

-- The views of items that are gone do not count any more. pcall: the number of all views may be no number.
local function uncount(views)
  redis.pcall("HINCRBY", totals, "views", digits(-views))
end

-- About how many bytes one item takes, in what a session viewed and in what all viewed.
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
-- Reply: how many items those were.
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
-- So many items stay. At most `limit` are removed.
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
-- Reply: how many views those were.
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
