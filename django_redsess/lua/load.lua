-- Read a session and note that it was seen. Only the first four KEYS of partition.lua are needed.
-- ARGV: sid, milliseconds between two notes (-1: leave no trace). Reply: the record, or false.
-- include partition.lua
local sid, interval = ARGV[1], tonumber(ARGV[2])

local record = live_record(sid)
if record and interval >= 0 then
  local seen = tonumber(redis.call("ZSCORE", recent, sid) or 0)
  if now - seen >= interval then
    -- pcall: a server that is full, or a replica, refuses these writes, and still serves the read.
    redis.pcall("ZADD", recent, "XX", "GT", text(now), sid)
    redis.pcall("ZADD", online_seen, "XX", "GT", text(now), sid)
  end
end
return record
