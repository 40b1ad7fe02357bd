-- Sessions that were seen lately.
-- needs: clock

-- The time of so many milliseconds ago; "" for "".
local function active_since(milliseconds)
  return milliseconds ~= "" and digits(now - milliseconds) or ""
end
