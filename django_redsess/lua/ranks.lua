-- Read where a score stands in a list. KEYS: see listing.lua, one list. ARGV: score; how many milliseconds ago sessions
-- were seen at most, or "" (the scores are when they were, then).
-- Reply: how many of those entries have a lower one, how many there are; the lowest and the highest score of the list.
-- include partition.lua
-- include listing.lua
local list, since = KEYS[11], since_from(ARGV[2])
local from = since ~= "" and since or "-inf"
local lowest, highest = redis.call("ZRANGE", list, 0, 0, "WITHSCORES"), redis.call("ZRANGE", list, -1, -1, "WITHSCORES")
return {
  redis.call("ZCOUNT", list, from, "(" .. ARGV[1]), redis.call("ZCOUNT", list, from, "+inf"),
  lowest[2] or "0", highest[2] or "0",
}
