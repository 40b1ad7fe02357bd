-- Count the sessions in some lists, after taking out up to 200 that are due.
-- KEYS: those of partition.lua, then sorted sets of sids. Reply: how many entries they have together, see
-- with_ended.
-- include partition.lua
remove(due(200), "expired")
local count = 0
for index = 11, #KEYS do
  count = count + redis.call("ZCARD", KEYS[index])
end
return with_ended(count)
