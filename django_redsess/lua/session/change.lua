-- Replace the record of a session that is still as it was loaded. This is the short way, for most saves; save.lua does
-- the rest.
-- KEYS: login expire
-- ARGV: sid loaded record due
-- `loaded` is the revision that was loaded, `due` a deadline, or "" to keep the one there is. A later deadline stays.
-- Reply: 1. Or nothing is written: the record that is there; or false or 0, and save.lua must be asked.
local found = redis.call("HGET", login, sid)
if not found or string.sub(found, 2, 7) ~= loaded then return found end
-- pcall: a full server refuses it, and save.lua can make room.
if type(redis.pcall("HSET", login, sid, record)) == "table" then return 0 end
if due ~= "" then redis.call("ZADD", expire, "XX", "GT", due, sid) end
return 1
