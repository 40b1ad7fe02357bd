-- Forget what a session viewed. KEYS: what it viewed. ARGV: an item, or nothing for all. Reply: how many items it was.
local viewed, item = KEYS[1], ARGV[1]
if item then return redis.call("ZREM", viewed, item) end
local count = redis.call("ZCARD", viewed)
redis.call("DEL", viewed)
return count
