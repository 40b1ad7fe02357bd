-- How often a password was tried, while somebody may sit at a device that is signed in.

--- count_try: Count a try of a password before it is made, unless there were too many.
-- KEYS: tries
-- ARGV: window:number max:number counts:flag
-- A try is recent for `window` milliseconds. Without `counts`, nothing is written. Nor is a try that may not be made: it
-- prolongs nothing. After the clock went back, entries far ahead are forgotten.
-- Reply: how many tries were left, this one among them; 0 if it may not be made.
local recent = {}
for at in string.gmatch(redis.call("GET", tries) or "", "%d+") do
  if math.abs(now - at) < window then recent[#recent + 1] = at end
end
local left = max - #recent
if left > 0 and counts then
  recent[#recent + 1] = digits(now)
  redis.call("SET", tries, table.concat(recent, " "), "PX", digits(window))
end
return math.max(left, 0)
