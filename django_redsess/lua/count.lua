-- Count the sessions in some lists, after taking out up to 200 that are due.
-- KEYS: those of partition.lua, then sorted sets of sids. Reply: how many entries they have together.
-- include partition.lua
remove(due(200))
local count = 0
for index = 9, #KEYS do
  count = count + redis.call("ZCARD", KEYS[index])
end
return count
