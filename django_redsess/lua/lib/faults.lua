-- What a check finds.

-- Three texts for each fault: its kind, sid, key.
local faults = {}

-- Report a fault. Returns whether to mend it.
local function fault(mend, kind, sid, key)
  for _, part in ipairs({ kind, sid, key }) do faults[#faults + 1] = part end
  return mend
end
