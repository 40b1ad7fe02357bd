-- Store who is online, in the first call of each minute, and thin out the older samples.
-- KEYS: samples
-- ARGV: lifetime:number thinning:list fields...
-- A sample is kept for `lifetime` milliseconds. It is a text: the minute, how many are signed in, how many are guests,
-- and these fields of totals, with blanks between. `thinning` has pairs of milliseconds: an age, and the length of the
-- slots of older samples; the oldest first.
-- Reply: milliseconds until the next minute.
-- needs: partition, clock, thinning
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
  for index = 1, #thinning, 2 do thin_out(tonumber(thinning[index]), tonumber(thinning[index + 1])) end
end
return minute + 60000 - now
