-- Forget what a session viewed.
-- KEYS: items
-- ARGV: item?
-- `items` are those that it viewed. Without an item, all are forgotten.
-- Reply: how many items those were.
if item then return redis.call("ZREM", items, item) end
local count = redis.call("ZCARD", items)
redis.call("DEL", items)
return count
