-- Room for a record on a server that is full and evicts nothing by itself.
-- needs: partition, record_header, remove

-- About how many bytes a session takes besides its record. Rather too many for one with a user, rather too few for a
-- guest's: so enough is freed.
local entries_of_user, entries_of_guest = 550, 200

-- The most guests' sessions that one script ends for this: more would keep the server from others for too long.
local relieved_max = 1000

-- The sessions that the script is about. They must stay. There are two at most.
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
    local count, size = remove(sids, "evicted")
    if count == 0 then break end
    taken, freed = taken + count, freed + size + count * entries_of_guest
    each = freed / taken
  end
end

-- Write a record. This must be the first write of a script: a full server refuses the first and no later one. So
-- nothing may be written before, not even a removal of nothing. If it is refused, guests' sessions are ended, and the
-- record is written again. Where there are no guests, the script fails.
local function first_write(sid, record)
  spared[sid] = true
  local reply = redis.pcall("HSET", login, sid, record)
  if type(reply) ~= "table" or not reply.err then return end
  if string.find(reply.err, "^%-?OOM") then
    relieve(#record + (user_of(record) == "" and entries_of_guest or entries_of_user))
  end
  redis.call("HSET", login, sid, record)
end
