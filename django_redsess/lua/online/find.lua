-- Look sessions up.
-- ARGV: live_only:flag sids...
-- `live_only` leaves out those that are due.
-- Reply: how many of the sids it has dealt with, then a row for each that is there, see row_of.
-- needs: clock, rows
local rows, count = rows_of(sids)
local found = { count }
for _, row in ipairs(rows) do
  if not live_only or tonumber(row[4]) > now then table.insert(found, row) end
end
return found
