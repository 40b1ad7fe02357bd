-- Read how long it is until the first deadline.
-- Reply: milliseconds, from 0 to a day; or false if there is none.
-- needs: clock, deadlines
local first = first_deadline()
return first and math.max(0, math.min(first - now, DAY))
