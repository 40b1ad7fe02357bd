-- Count who is online, and read the samples of a time.
-- KEYS: samples
-- ARGV: first:number last:number
-- `first` and `last` are times in milliseconds; `first` may be how long ago, as a negative number. Without `last`, all
-- samples up to now.
-- Reply: the time, how many are signed in, how many are guests; and samples, the earliest first (see take_sample.lua),
-- as one text with a line for each: thousands of texts would take the client long.
-- needs: partition, clock
local signed_in = redis.call("ZCARD", online_user)
local from, to = digits(first < 0 and now + first or first), last and digits(last) or "+inf"
local found = redis.call("ZRANGE", samples, from, to, "BYSCORE")
return { digits(now), signed_in, redis.call("ZCARD", guests), table.concat(found, "\n") }
