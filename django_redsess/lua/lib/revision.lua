-- The revision of a record.

-- Each write has a new revision. Two records are the same exactly if their revisions are.
local function revision_of(record)
  return string.sub(record, 2, 7)
end
