-- Stands behind partition.lua: whose a record is.

-- The header of a record is described in record.py. One of another release has another format.
local function is_readable(record)
  return #record >= 22 and string.byte(record, 1) == 50 and #record >= 22 + string.byte(record, 22)
end

-- "" stands for no user.
local function user_of(record)
  if not record or not is_readable(record) then return "" end
  return string.sub(record, 23, 22 + string.byte(record, 22))
end
