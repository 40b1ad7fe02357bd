-- Whether a record is one of a certain user.
-- needs: record_header

-- Whether a record may be one of this user. A record that can't be read may be anybody's.
local function may_be_of(record, user_id)
  return record and (not is_readable(record) or user_id ~= "" and user_of(record) == user_id)
end
