-- Stands behind partition.lua: whose a record is.

-- Where a record has the length of its user id: see record.py. A record of another release may have another format.
local length_at = 29

local function is_readable(record)
  return #record > length_at and string.byte(record, 1) == 51 and #record >= length_at + string.byte(record, length_at)
end

-- The user id of a record; "" for a guest's, and for one that can't be read.
local function user_of(record)
  if not record or not is_readable(record) then return "" end
  return string.sub(record, length_at + 1, length_at + string.byte(record, length_at))
end

-- When its user signed in. This is sealed in the record.
local function login_time_of(record)
  return text((struct.unpack(">I6", record, length_at + 1 + string.byte(record, length_at))))
end
