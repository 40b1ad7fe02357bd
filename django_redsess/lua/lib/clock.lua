-- The server's time, in milliseconds.

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Write a number as digits. Lua's own conversion would write a time as 1.79e+12.
local function digits(number)
  return string.format("%.0f", number)
end
