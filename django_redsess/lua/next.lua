-- Read how long it is until the first deadline. KEYS: see partition.lua. Reply: milliseconds, 0 if it has passed; or false.
-- include partition.lua
local first = first_deadline()
return first and math.max(0, first - now)
