-- Count who is online, and read the samples of the last so many milliseconds.
-- KEYS: samples
-- ARGV: milliseconds
-- Reply: the time, how many are signed in, how many are guests; and samples, the earliest first (see take_sample.lua),
-- as one text with a line for each: thousands of texts would take the client long.
-- needs: partition, clock
local signed_in = redis.call("ZCARD", online_user)
local found = redis.call("ZRANGE", samples, digits(now - milliseconds), "+inf", "BYSCORE")
return { digits(now), signed_in, redis.call("ZCARD", guests), table.concat(found, "\n") }
