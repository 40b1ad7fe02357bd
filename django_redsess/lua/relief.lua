-- Stands behind remove.lua: room on a server that is full, and throws nothing away by itself.

-- About how many bytes a session takes besides its record. For one with a user this is rather too much, for a guest's
-- rather too little, so that enough is freed.
local entries_of_user, entries_of_guest = 550, 200

-- The sessions that the script is about: these must not go.
local spared = {}

-- End guests' sessions, the longest unseen first, until so many bytes are free. At most 1 000 go, and a megabyte, so
-- that the server is not kept from others for too long.
local function relieve(bytes)
  local freed, taken, each = 0, 0, entries_of_guest
  bytes = math.min(bytes, 1048576)
  while freed < bytes and taken < 1000 do
    local wanted, sids = math.min(250, 1000 - taken, math.ceil((bytes - freed) / each)), {}
    -- At most two are spared.
    for _, sid in ipairs(redis.call("ZRANGE", guests, 0, wanted + 1)) do
      if not spared[sid] and #sids < wanted then sids[#sids + 1] = sid end
    end
    local count, size = remove(sids, "evicted")
    if count == 0 then break end
    taken, freed = taken + count, freed + size + count * entries_of_guest
    each = freed / taken
  end
end

-- Write a record, before anything else is written. A server that is full refuses a script's first write, and no later
-- one: so nothing may be written before, not even a removal of nothing. Where it is refused, guests' sessions make
-- room, and it is tried again. Where there are none, it fails.
local function first_write(sid, record)
  spared[sid] = true
  local reply = redis.pcall("HSET", login, sid, record)
  if type(reply) ~= "table" or not reply.err then return end
  if string.find(reply.err, "^%-?OOM") then
    relieve(#record + (user_of(record) == "" and entries_of_guest or entries_of_user))
  end
  redis.call("HSET", login, sid, record)
end
