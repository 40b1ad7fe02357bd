-- Replace the record of a session that is still as it was loaded. This is the short way, for most saves; save.lua does
-- the rest.
-- KEYS: login expire places?
-- ARGV: sid loaded record due place? left?
-- `loaded` is the revision that was loaded, `due` a deadline, or "" to keep the one there is. A later deadline stays.
-- If the address has changed, either the session gets a `place` in the list `places` of the index of addresses, or it
-- is taken out of the list `left`.
-- Reply: 1. Or nothing is written: the record that is there; or false or 0, and save.lua must be asked.
local found = redis.call("HGET", login, sid)
if not found or string.sub(found, 2, 7) ~= loaded then return found end
-- pcall: a full server refuses it, and save.lua can make room.
if type(redis.pcall("HSET", login, sid, record)) == "table" then return 0 end
if places then
  redis.call("ZADD", places, place, sid)
elseif left then
  -- This list is not among the KEYS: it is often not there, and a cluster that moves the slot would refuse the script.
  -- pcall: there, it may be on the other node.
  redis.pcall("ZREM", left, sid)
end
if due ~= "" then redis.call("ZADD", expire, "XX", "GT", due, sid) end
return 1
