-- Store who is online, in the first call of each minute.
-- KEYS: samples
-- ARGV: lifetime:number fields...
-- A sample is kept for `lifetime` milliseconds. It is a text: the minute, how many are signed in, how many are guests,
-- and these fields of totals, with blanks between.
-- Reply: milliseconds until the next minute.
-- needs: partition, clock
local minute = now - now % 60000
local newest = redis.call("ZRANGE", samples, -1, -1, "WITHSCORES")
if not newest[2] or tonumber(newest[2]) < minute then
  local sample = { digits(minute), redis.call("ZCARD", online_user), redis.call("ZCARD", guests) }
  for _, total in ipairs(redis.call("HMGET", totals, unpack(fields))) do
    table.insert(sample, total or 0)
  end
  -- pcall: a full server refuses it, and there is a gap.
  redis.pcall("ZADD", samples, digits(minute), table.concat(sample, " "))
  redis.call("ZREMRANGEBYSCORE", samples, "-inf", digits(now - lifetime))
end
return minute + 60000 - now
