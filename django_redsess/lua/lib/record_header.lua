-- The header of a record, as record.py writes it.

-- Where the length of the user id stands.
local length_at = 29

-- Whether a record has this release's format, 4. Another release may write another one.
local function is_readable(record)
  return #record > length_at and string.byte(record, 1) == 52 and #record >= length_at + string.byte(record, length_at)
end

-- The user id of a record; "" for a guest's, and for one that can't be read.
local function user_of(record)
  if not record or not is_readable(record) then return "" end
  return string.sub(record, length_at + 1, length_at + string.byte(record, length_at))
end
