-- Read records of sessions.
-- KEYS: login
-- ARGV: cut_to:number sids
-- `sids` is one text, 20 characters each. Of a longer record, the first `cut_to` bytes are read; nil reads all of each.
-- Reply: the lengths of what was read, with blanks between, 0 for what is not there; and the records one after the other.
-- A client would take long to read thousands of texts. They are those of the first sids, up to BYTES_MAX of records.
local total, count, size, batch, lengths, records = #sids / 20, 0, 0, 16, {}, {}
while count < total and size <= BYTES_MAX do
  local names = {}
  for place = count + 1, math.min(count + batch, total) do
    names[#names + 1] = string.sub(sids, place * 20 - 19, place * 20)
  end
  local found = redis.call("HMGET", login, unpack(names))
  for place = 1, #names do
    local record = found[place] or ""
    size = size + #record
    if cut_to and #record > cut_to then record = string.sub(record, 1, cut_to) end
    lengths[count + place], records[count + place] = #record, record
  end
  count = count + #names
  batch = math.max(1, math.min(2 * batch, AT_ONCE_MAX, math.floor((BYTES_MAX - size) * count / math.max(size, 1))))
end
return { table.concat(lengths, " "), table.concat(records) }
