-- Compare keys that belong to one session or one user each with the sessions, and mend what disagrees if told to: what
-- a session viewed which is gone; the note of an end whose session is there, or that stays for longer than a day; and
-- in the list of a user, a session that is none of that user's.
-- KEYS: see partition.lua. ARGV: "mend" or "", then up to 100 names. Reply: three texts for each fault: its kind, sid,
-- key; and the names of lists that are too long to be looked at here.
-- include partition.lua
-- include user.lua
-- include record.lua
local mend = ARGV[1] == "mend"
local faults, long, bytes = {}, {}, 0

local function fault(kind, sid, key)
  for _, part in ipairs({ kind, sid, key }) do table.insert(faults, part) end
  return mend
end

local function rest_of(name, beginning)
  return string.sub(name, 1, #beginning) == beginning and string.sub(name, #beginning + 1)
end

local function check_list(name, user_id)
  if redis.call("TYPE", name)["ok"] ~= "zset" then return fault("unknown", "", name) end
  if bytes > 1048576 or redis.call("ZCARD", name) > 10 then return table.insert(long, name) end
  for _, sid in ipairs(redis.call("ZRANGE", name, 0, -1)) do
    local record = redis.call("HGET", login, sid)
    bytes = bytes + (record and #record or 0)
    if not may_be_of(record, user_id) and fault("stray", sid, name) then redis.call("ZREM", name, sid) end
  end
end

local function stays(name)
  local left = redis.call("PTTL", name)
  return left == -1 or left > 86400000
end

for index = 2, #ARGV do
  local name = ARGV[index]
  local user_id, viewer, over = rest_of(name, online_user_of), rest_of(name, viewed_by), rest_of(name, ended_of)
  if redis.call("EXISTS", name) == 0 then
    -- It has gone since it was listed.
  elseif user_id then
    check_list(name, user_id)
  else
    local lives = redis.call("HEXISTS", login, viewer or over) == 1
    local wrong = viewer and not lives or over and (lives or stays(name))
    if wrong and fault("stray", viewer or over, name) then redis.call("DEL", name) end
  end
end
return { faults, long }
