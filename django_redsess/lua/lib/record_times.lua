-- The times in the header of a record.
-- needs: record_header, clock

-- When the user of a record signed in. The record must be readable, and have a user.
local function login_time_of(record)
  return digits((struct.unpack(">I6", record, length_at + 1 + string.byte(record, length_at))))
end

-- When a record was written, or up to a second earlier. Where the deadline was set as a date, it is that date.
local function written_at(record)
  if #record < length_at then return 0 end
  local deadline, age = struct.unpack(">I5I4", record, 8)
  return (deadline - age - 1) * 1000
end
