-- Replace the record of a session that is still as it was loaded. Most saves are this short one: see saving.py.
-- KEYS: login expire.
-- ARGV: sid, revision that was loaded, record, deadline ("": it stays). A deadline that is later already stays, too.
-- Reply: 1. Or nothing is written: the record that is there; or false or 0, and save.lua is to be asked.
local found = redis.call("HGET", KEYS[1], ARGV[1])
if not found or string.sub(found, 2, 7) ~= ARGV[2] then return found end
-- pcall: a server that is full refuses it, and save.lua can make room.
if type(redis.pcall("HSET", KEYS[1], ARGV[1], ARGV[3])) == "table" then return 0 end
if ARGV[4] ~= "" then redis.call("ZADD", KEYS[2], "XX", "GT", ARGV[4], ARGV[1]) end
return 1
