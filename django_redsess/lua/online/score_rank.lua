-- Read at which rank a score stands in lists that are looked at together.
-- KEYS: lists...
-- ARGV: score active
-- Only sessions count that were seen at most `active` milliseconds ago (then scores must be last seen); "" counts all.
-- Reply: how many entries have a lower score; how many there are; the lowest and the highest score of the lists.
-- needs: active
local since = active_since(active)
local from = since ~= "" and since or "-inf"
local lower, count, lowest, highest = 0, 0, nil, nil
for _, list in ipairs(lists) do
  lower = lower + redis.call("ZCOUNT", list, from, "(" .. score)
  count = count + redis.call("ZCOUNT", list, from, "+inf")
  local first = redis.call("ZRANGE", list, 0, 0, "WITHSCORES")[2]
  local last = redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2]
  if first and (not lowest or tonumber(first) < tonumber(lowest)) then lowest = first end
  if last and (not highest or tonumber(last) > tonumber(highest)) then highest = last end
end
return { lower, count, lowest or "0", highest or "0" }
