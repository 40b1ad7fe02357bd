-- Look sessions up. ARGV: sids. Reply: rows, see row_of, of those that are there.
-- include partition.lua
local rows = {}
for _, sid in ipairs(ARGV) do
  table.insert(rows, row_of(sid, live_record(sid)))
end
return rows
