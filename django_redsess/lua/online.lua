-- Who is signed in, who is a guest, and who is active.
-- Other names: KEYS and ARGV of a script are locals of it. AT_ONCE_MAX, BYTES_MAX, CONSIDERED_MAX, DUE_MAX, digits,
-- due_sids, last_seen, now, remove_sessions, steady_time_of and with_ended are in common.lua.

-- Sessions that were seen lately.

-- The time of so many milliseconds ago; "" for "".
local function active_since(milliseconds)
  return milliseconds ~= "" and digits(now - milliseconds) or ""
end

-- How many sessions with a user, and how many guests', were seen at most `milliseconds` ago.
local function count_active(milliseconds)
  local since = active_since(milliseconds)
  return redis.call("ZCOUNT", recent, since, "+inf"), redis.call("ZCOUNT", guests, since, "+inf")
end

-- The row of a session in a list.

-- A row: sid, login time, last seen, deadline, newest viewed item, record. nil without a record or a deadline: it is no
-- session then, whatever the server has evicted.
local function row_of(sid, record)
  local deadline = record and redis.call("ZSCORE", expire, sid)
  if not deadline then return nil end
  local login_time = redis.call("ZSCORE", online_user, sid) or ""
  local seen_at = last_seen(sid) or login_time
  return { sid, login_time, seen_at, deadline, redis.call("ZRANGE", viewed_by .. sid, -1, -1)[1] or "", record }
end

-- The rows of sids, until their records have too many bytes; and how many sids were read.
local function rows_of(sids)
  local rows, size, count = {}, 0, 0
  while count < #sids and size <= BYTES_MAX do
    count = count + 1
    local sid = sids[count]
    local record = redis.call("HGET", login, sid)
    size = size + (record and #record or 0)
    rows[#rows + 1] = row_of(sid, record)
  end
  return rows, count
end

-- Two sorted sets, read as one. It goes by rank, so it takes the same time at any depth.

-- Whether an entry (member, score) comes before another one.
local function comes_before(one, other, reverse)
  if reverse then one, other = other, one end
  local score, score_of_other = tonumber(one[2]), tonumber(other[2])
  return score < score_of_other or score == score_of_other and one[1] < other[1]
end

-- A list without its lowest `skipped` entries. `reverse` reads it from the highest score down.
local function part_of(name, skipped, reverse)
  local part = { count = redis.call("ZCARD", name) - skipped }
  function part.read(first, last)
    if reverse then
      return redis.call("ZRANGE", name, first, math.min(last, part.count - 1), "REV", "WITHSCORES")
    end
    return redis.call("ZRANGE", name, skipped + first, skipped + last, "WITHSCORES")
  end
  return part
end

-- How many of the first `count` entries of both are in the part `one`: found by halving.
local function how_many_of(one, other, count, reverse)
  local low, high = math.max(0, count - other.count), math.min(count, one.count)
  while low < high do
    local taken = math.floor((low + high) / 2)
    local rest = count - taken - 1
    if comes_before(one.read(taken, taken), other.read(rest, rest), reverse) then low = taken + 1 else high = taken end
  end
  return low
end

-- The entries of both parts from rank `first` to `last`: member, score, member, score, …
local function read_merged(one, other, first, last, reverse)
  local count, entries = last - first + 1, {}
  if first >= one.count + other.count or count < 1 then return entries end
  local of_one = how_many_of(one, other, first, reverse)
  local of_other = first - of_one
  local left = of_one < one.count and one.read(of_one, of_one + count - 1) or {}
  local right = of_other < other.count and other.read(of_other, of_other + count - 1) or {}
  local at_left, at_right = 1, 1
  while #entries < 2 * count and (left[at_left] or right[at_right]) do
    local next_left, next_right = { left[at_left], left[at_left + 1] }, { right[at_right], right[at_right + 1] }
    local takes_left = not next_right[1] or next_left[1] and comes_before(next_left, next_right, reverse)
    local taken = takes_left and next_left or next_right
    entries[#entries + 1], entries[#entries + 2] = taken[1], taken[2]
    if takes_left then at_left = at_left + 2 else at_right = at_right + 2 end
  end
  return entries
end

-- The sessions of some users in one order. Their lists are the script's KEYS `lists`.

local function count_since(login_time)
  local count = 0
  for _, list in ipairs(lists) do count = count + redis.call("ZCOUNT", list, login_time, "+inf") end
  return count
end

-- The login time since which there are CONSIDERED_MAX sign-ins at most, and not many fewer: found by halving time. The
-- halves are the same each time, so that a page and its count agree.
local function since_of_latest()
  if count_since("-inf") <= CONSIDERED_MAX then return "-inf" end
  local too_early, late_enough = 0, 2 ^ 42
  while late_enough - too_early > 1 do
    local middle = math.floor((too_early + late_enough) / 2)
    local count = count_since(digits(middle))
    if count > CONSIDERED_MAX then too_early = middle else late_enough = middle end
    if count <= CONSIDERED_MAX and count > CONSIDERED_MAX * 0.9 then break end
  end
  return digits(late_enough)
end

-- The sessions of these users: their sids, and the score of each, which is its login time or when it was last seen.
-- Only those seen since then, unless that is "". Only the latest CONSIDERED_MAX sign-ins.
local function of_users(by_seen, since)
  local sids, scores, low = {}, {}, since_of_latest()
  for _, list in ipairs(lists) do
    local flat = redis.call("ZRANGE", list, low, "+inf", "BYSCORE", "WITHSCORES")
    local members = {}
    for at = 1, #flat, 2 do members[#members + 1] = flat[at] end
    local seen = #members > 0 and (by_seen or since ~= "") and redis.call("ZMSCORE", recent, unpack(members))
    for number, sid in ipairs(members) do
      if since == "" or tonumber(seen[number] or 0) >= tonumber(since) then
        sids[#sids + 1] = sid
        scores[sid] = tonumber(by_seen and seen[number] or flat[2 * number])
      end
    end
  end
  return sids, scores
end

-- Thin out samples, so that each slot of time has one. Slots begin at the same times in all partitions. `list` has
-- samples of all counts, or those of who was active. They are texts of the same form: the minute, how many are signed
-- in, how many are guests. Only those of all counts have totals behind.

-- Group samples with their scores, the earliest first, by slots of `length` milliseconds.
local function slots_of(found, length)
  local slots, slot = {}, nil
  for index = 1, #found, 2 do
    local at = tonumber(found[index + 1])
    if not slot or at - at % length ~= slot.begins then
      slot = { begins = at - at % length, first = at }
      slots[#slots + 1] = slot
    end
    slot[#slot + 1] = found[index]
  end
  return slots
end

-- Replace the samples of a slot by one: its time is the slot's beginning, its counts are the highest, its totals those
-- of the latest. Return whether the server took it.
local function merge_slot(list, has_totals, slot)
  local signed_in, guests_there, latest = 0, 0, nil
  for _, sample in ipairs(slot) do
    local users, others, rest = string.match(sample, "^%d+ (%d+) (%d+)([%d ]*)$")
    -- Another program may have written anything: other texts than samples go.
    if rest and (rest ~= "") == has_totals then
      latest = rest
      signed_in, guests_there = math.max(signed_in, tonumber(users)), math.max(guests_there, tonumber(others))
    end
  end
  local merged = latest and table.concat({ digits(slot.begins), digits(signed_in), digits(guests_there) }, " ") .. latest
  -- pcall: a full server refuses it. Then the samples stay as they are.
  if merged and type(redis.pcall("ZADD", list, digits(slot.begins), merged)) == "table" then return false end
  for _, sample in ipairs(slot) do
    if sample ~= merged then redis.call("ZREM", list, sample) end
  end
  return true
end

-- Keep one sample for each slot of `length` milliseconds that is older than `age`. Look at up to AT_ONCE_MAX samples:
-- the next call goes on behind them.
local function thin_out(list, has_totals, age, length)
  local before, field = now - age, (has_totals and "thinned:" or "thinned:active:") .. digits(length)
  before = before - before % length
  local from = tonumber(redis.call("HGET", totals, field) or 0) or 0
  if from == before then return end
  -- The clock has stepped back: begin again.
  if from > before then from = 0 end
  local found = redis.call("ZRANGE", list, digits(from), "(" .. digits(before), "BYSCORE", "LIMIT", 0, AT_ONCE_MAX,
    "WITHSCORES")
  local slots = slots_of(found, length)
  if #found == 2 * AT_ONCE_MAX then
    -- The last slot may have more samples than were read.
    before = slots[#slots].begins
    if slots[2] then slots[#slots] = nil end
  end
  for _, slot in ipairs(slots) do
    if (slot[2] or slot.first ~= slot.begins) and not merge_slot(list, has_totals, slot) then return end
  end
  redis.pcall("HSET", totals, field, digits(before))
end

--- count: Count sessions, after taking out up to DUE_MAX that are due.
-- KEYS: partition lists...
-- ARGV: kind active
-- `kind` is "" for the lists of a partition, "users" for those of users, "listed" to count of these what pages can
-- show. Only sessions count that were seen at most `active` milliseconds ago; "" counts all.
-- Reply: how many; and the time, or that of the newest entry if it is ahead. See with_ended.
local since = active_since(active)

remove_sessions(due_sids(DUE_MAX), "expired")
local count, at = 0, now
if since == "" and kind ~= "listed" then
  for _, list in ipairs(lists) do count = count + redis.call("ZCARD", list) end
elseif kind ~= "" then
  count = #of_users(false, since)
else
  for _, list in ipairs(lists) do count = count + redis.call("ZCOUNT", list, since, "+inf") end
end
for _, list in ipairs(lists) do at = math.max(at, steady_time_of(list)) end
return with_ended({ count, digits(at) })

--- find: Look sessions up.
-- KEYS: partition
-- ARGV: live_only:flag sids...
-- `live_only` leaves out those that are due.
-- Reply: how many of the sids it has dealt with, then a row for each that is there, see row_of.
local rows, count = rows_of(sids)
local found = { count }
for _, row in ipairs(rows) do
  if not live_only or tonumber(row[4]) > now then table.insert(found, row) end
end
return found

--- page: Read a page of sessions, after taking out up to DUE_MAX that are due.
-- KEYS: partition lists...
-- ARGV: order active first:number last:number latest_first:flag with_rows:flag keeps_due:flag
-- `lists` are the list, or two whose scores are of one kind; or lists of users, to be put in order together. `order` is
-- "" for the scores of the one list or two; else, for lists of users, "login" or "seen". Only sessions that were seen
-- at most `active` milliseconds ago; "" for all. With it, the scores of the one list or two must be last seen. `first` and `last` are ranks. `keeps_due` takes out nothing.
-- Reply: sid, score, sid, score, …; of how many of these rows follow; the rows, see row_of. See with_ended.
local since = active_since(active)

local function read_by_rank()
  local parts = {}
  for _, list in ipairs(lists) do
    local skipped = since ~= "" and redis.call("ZCOUNT", list, "-inf", "(" .. since) or 0
    parts[#parts + 1] = part_of(list, skipped, latest_first)
  end
  local one, other = parts[1], parts[2]
  if other then return read_merged(one, other, first, last, latest_first) end
  return first < one.count and one.read(first, last) or {}
end

local function read_of_users()
  local sids, scores = of_users(order == "seen", since)
  table.sort(sids, function(one, other)
    if latest_first then one, other = other, one end
    if scores[one] ~= scores[other] then return scores[one] < scores[other] end
    return one < other
  end)
  local entries = {}
  for at = first + 1, math.min(last + 1, #sids) do
    entries[#entries + 1] = sids[at]
    entries[#entries + 1] = digits(scores[sids[at]])
  end
  return entries
end

if not keeps_due then remove_sessions(due_sids(DUE_MAX), "expired") end
local entries = order == "" and read_by_rank() or read_of_users()
local sids = {}
for at = 1, with_rows and #entries or 0, 2 do sids[#sids + 1] = entries[at] end
local rows, count = rows_of(sids)
return with_ended({ entries, count, rows })

--- newest: Read the newest sessions of lists, after taking out up to DUE_MAX that are due.
-- KEYS: partition lists...
-- ARGV: active offset:number count:number with_scores:flag keeps_due:flag
-- Of each list up to `count` sessions are read after the first `offset`, those with the highest scores first. `active`
-- keeps those seen at most so many milliseconds ago, and then the scores must be last seen; "" keeps all. `keeps_due`
-- takes out nothing.
-- Reply: a text for each list, since a client takes long to read ten thousand texts. It has the sids one after the
-- other; or, with scores, each sid and its score, with blanks between. See with_ended.
local since = active_since(active)
if since == "" then since = "-inf" end

local function newest_of(list)
  local how = { "LIMIT", offset, count, with_scores and "WITHSCORES" or nil }
  local flat = redis.call("ZRANGE", list, "+inf", since, "BYSCORE", "REV", unpack(how))
  local kept, step = {}, with_scores and 2 or 1
  for at = 1, #flat, step do
    -- Another program may have written to a list.
    if #flat[at] == 20 then
      kept[#kept + 1] = flat[at]
      if with_scores then kept[#kept + 1] = flat[at + 1] end
    end
  end
  return table.concat(kept, with_scores and " " or "")
end

if not keeps_due then remove_sessions(due_sids(DUE_MAX), "expired") end
local texts = {}
for _, list in ipairs(lists) do texts[#texts + 1] = newest_of(list) end
return with_ended(texts)

--- read_records: Read records of sessions.
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

--- take_sample: Store who is here, in the first call of each minute, and thin out the older samples.
-- KEYS: partition samples samples_active
-- ARGV: active:number lifetime:number thinning:list fields...
-- A sample is kept for `lifetime` milliseconds. It is a text: the minute, how many are signed in, how many are guests,
-- and these fields of totals, with blanks between. `samples_active` gets a text of its own, since earlier releases
-- refuse a sample with more numbers: the minute, and how many of both were seen at most `active` milliseconds ago.
-- `thinning` has pairs of milliseconds: an age, and the length of the slots of older samples; the oldest first.
-- Reply: milliseconds until the next minute.
local minute = now - now % 60000
local newest = redis.call("ZRANGE", samples, -1, -1, "WITHSCORES")
if not newest[2] or tonumber(newest[2]) < minute then
  local sample = { digits(minute), redis.call("ZCARD", online_user), redis.call("ZCARD", guests) }
  for _, total in ipairs(redis.call("HMGET", totals, unpack(fields))) do
    table.insert(sample, total or 0)
  end
  -- pcall: a full server refuses it, and there is a gap.
  redis.pcall("ZADD", samples, digits(minute), table.concat(sample, " "))
  redis.pcall("ZADD", samples_active, digits(minute), table.concat({ digits(minute), count_active(active) }, " "))
  for _, list in ipairs({ samples, samples_active }) do
    redis.call("ZREMRANGEBYSCORE", list, "-inf", digits(now - lifetime))
    for index = 1, #thinning, 2 do
      thin_out(list, list == samples, tonumber(thinning[index]), tonumber(thinning[index + 1]))
    end
  end
end
return minute + 60000 - now

--- read_samples: Count who is here, and read the samples of a time.
-- KEYS: partition samples samples_active
-- ARGV: active:number first:number last:number
-- `first` and `last` are times in milliseconds; `first` may be how long ago, as a negative number. Without `last`, all
-- samples up to now.
-- Reply: the time; how many are signed in, how many are guests, and how many of both were seen at most `active`
-- milliseconds ago; and the samples of both lists, the earliest first (see `take_sample`), each as one text with a line
-- for each: thousands of texts would take the client long.
local from, to = digits(first < 0 and now + first or first), last and digits(last) or "+inf"
local counts = { redis.call("ZCARD", online_user), redis.call("ZCARD", guests), count_active(active) }
local texts = {}
for number, list in ipairs({ samples, samples_active }) do
  texts[number] = table.concat(redis.call("ZRANGE", list, from, to, "BYSCORE"), "\n")
end
return { digits(now), counts, unpack(texts) }
