-- Read how long it is until the first deadline. KEYS: see partition.lua.
-- Reply: milliseconds, from 0 to a day; or false.
-- include partition.lua
local first = first_deadline()
return first and math.max(0, math.min(first - now, 86400000))
