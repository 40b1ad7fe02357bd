-- Read records of sessions.
-- KEYS: login
-- ARGV: cut_to:number sids
-- `sids` is one text, 20 characters each. Of a longer record, the first `cut_to` bytes are read; nil reads all of each.
-- It stops after BYTES_MAX of records: then the last sids have no length in the reply.
-- Reply: the lengths of what was read, with blanks between, 0 for what is not there; and the records one after the
-- other, as one text, since a client takes long to read thousands.
local total, count, size, batch, lengths, records = #sids / 20, 0, 0, 16, {}, {}
while count < total and size <= BYTES_MAX do
  local names = {}
  for number = count + 1, math.min(count + batch, total) do
    names[#names + 1] = string.sub(sids, number * 20 - 19, number * 20)
  end
  local found = redis.call("HMGET", login, unpack(names))
  for number = 1, #names do
    local record = found[number] or ""
    size = size + #record
    if cut_to and #record > cut_to then record = string.sub(record, 1, cut_to) end
    lengths[count + number], records[count + number] = #record, record
  end
  count = count + #names
  batch = math.max(1, math.min(2 * batch, AT_ONCE_MAX, math.floor((BYTES_MAX - size) * count / math.max(size, 1))))
end
return { table.concat(lengths, " "), table.concat(records) }
