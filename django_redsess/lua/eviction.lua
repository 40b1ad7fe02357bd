-- Eviction: sessions that end to make room, because there are too many, or because the server is full.
-- Other names: KEYS and ARGV of a script are locals of it. AT_ONCE_MAX, BYTES_MAX, due_sids, remove_sessions, user_of and
-- with_ended are in common.lua.

-- Sessions above the maximum. Guests' sessions end first, to make room for those with a user.

-- How many guests' sessions are too many, and how many sessions with a user. `maximum` sessions may have a user. Guests
-- may have what these leave of it, but `reserve` at least and `guests_maximum` at most. eviction.Allowance has the same
-- rule.
local function too_many(maximum, reserve, guests_maximum)
  local with_user = redis.call("ZCARD", recent)
  local allowed = math.min(math.max(maximum - with_user, reserve), guests_maximum)
  return math.max(0, redis.call("ZCARD", guests) - allowed), math.max(0, with_user - maximum)
end

-- End up to `limit` sessions that are too many, the longest unseen first. Returns how many are still too many.
local function evict(maximum, reserve, guests_maximum, limit, quiet)
  local of_guests, with_user = too_many(maximum, reserve, guests_maximum)
  local left = of_guests + with_user
  for _, each in ipairs({ { guests, of_guests }, { recent, with_user } }) do
    local list, count = each[1], math.min(each[2], limit)
    local taken = count > 0 and remove_sessions(redis.call("ZRANGE", list, 0, count - 1), "evicted", list, quiet) or 0
    left, limit = left - taken, limit - taken
  end
  return left
end

-- Room for a record on a server that is full and evicts nothing by itself.

-- How many bytes a guest's session takes besides its record. A low estimate: so enough is freed.
local entries_of_guest = 200

-- How many bytes a session with a user takes besides its record. A high estimate.
local entries_of_user = 550

-- The most guests' sessions that one script ends to make room. More would block the server for too long.
local relieved_max = 1000

-- The sessions that the script writes, two at most. They must stay.
local spared = {}

-- End guests' sessions, the longest unseen first, until so many bytes are free.
local function relieve(bytes)
  local freed, taken, each = 0, 0, entries_of_guest
  bytes = math.min(bytes, BYTES_MAX)
  while freed < bytes and taken < relieved_max do
    local wanted, sids = math.min(AT_ONCE_MAX, relieved_max - taken, math.ceil((bytes - freed) / each)), {}
    for _, sid in ipairs(redis.call("ZRANGE", guests, 0, wanted + 1)) do
      if not spared[sid] and #sids < wanted then sids[#sids + 1] = sid end
    end
    local count, size = remove_sessions(sids, "evicted")
    if count == 0 then break end
    taken, freed = taken + count, freed + size + count * entries_of_guest
    each = freed / taken
  end
end

-- Whether an error says that the server is full. A full server refuses the first write of a script, and no later one. So
-- nothing may be written before, not even by a ZREM that removes nothing.
local function says_full(failure)
  -- It is a table or a text, by the server's version.
  return string.find(type(failure) == "table" and failure.err or tostring(failure), "^%-?OOM") ~= nil
end

-- Write a record, as the first write of a script. If it is refused, guests' sessions are ended, and the record is written
-- again. Where there are no guests, the script fails.
local function first_write(sid, record)
  spared[sid] = true
  local reply = redis.pcall("HSET", login, sid, record)
  if type(reply) ~= "table" or not reply.err then return end
  if says_full(reply) then
    relieve(#record + (user_of(record) == "" and entries_of_guest or entries_of_user))
  end
  redis.call("HSET", login, sid, record)
end

--- evict: End sessions that are too many: guests' first, the longest unseen first.
-- KEYS: partition
-- ARGV: maximum:number reserve:number guests_maximum:number limit:number named:flag
-- The first three say how many there may be, see too_many. At most `limit` end. `named` asks for whom it ended.
-- Reply: how many are still too many. See with_ended.
return with_ended(evict(maximum, reserve, guests_maximum, limit, not named))

--- clean_on_create: Clean up beside a new session: end sessions that are due, then those that are too many.
-- KEYS: partition
-- ARGV: maximum:number reserve:number guests_maximum:number limit:number named:flag
-- The arguments are as in `evict`. `limit` is for both together.
-- Reply: how many are still too many. See with_ended.
local taken = remove_sessions(due_sids(limit), "expired", expire, not named)
return with_ended(evict(maximum, reserve, guests_maximum, limit - taken, not named))
