-- Read where a score stands in lists that are looked at together. KEYS: see listing.lua. ARGV: score; how many
-- milliseconds ago sessions were seen at most, or "" (the scores are when they were, then).
-- Reply: how many of those entries have a lower one, how many there are; the lowest and the highest score of the lists.
-- include partition.lua
-- include listing.lua
local since = since_from(ARGV[2])
local from = since ~= "" and since or "-inf"
local lower, count, lowest, highest = 0, 0, nil, nil
for index = 11, #KEYS do
  local list = KEYS[index]
  lower = lower + redis.call("ZCOUNT", list, from, "(" .. ARGV[1])
  count = count + redis.call("ZCOUNT", list, from, "+inf")
  local first = redis.call("ZRANGE", list, 0, 0, "WITHSCORES")[2]
  local last = redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2]
  if first and (not lowest or tonumber(first) < tonumber(lowest)) then lowest = first end
  if last and (not highest or tonumber(last) > tonumber(highest)) then highest = last end
end
return { lower, count, lowest or "0", highest or "0" }
