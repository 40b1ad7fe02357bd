-- Note who is online, in the first call of each minute; a note is kept for so long.
-- KEYS: those of partition.lua, then samples. ARGV: milliseconds, then names of totals. Reply: milliseconds until the
-- next minute. A note is the minute, how many are signed in, how many are guests, and those totals, blanks between.
-- include partition.lua
local samples, kept = KEYS[11], tonumber(ARGV[1])

local minute = now - now % 60000
local last = redis.call("ZRANGE", samples, -1, -1, "WITHSCORES")
if not last[2] or tonumber(last[2]) < minute then
  local signed_in = redis.call("ZCARD", online_user)
  local note = { text(minute), signed_in, redis.call("ZCARD", guests) }
  for _, total in ipairs(redis.call("HMGET", totals, unpack(ARGV, 2))) do
    table.insert(note, total or 0)
  end
  -- pcall: a server that is full refuses it, and there is a gap then.
  redis.pcall("ZADD", samples, text(minute), table.concat(note, " "))
  redis.call("ZREMRANGEBYSCORE", samples, "-inf", text(now - kept))
end
return minute + 60000 - now
