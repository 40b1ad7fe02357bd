-- Compare keys that belong to one session or one user with the sessions, and mend what disagrees if told to: what a
-- session viewed that is gone; the note of an end whose session is there, or that stays for longer than a day; and in
-- the list of a user, a session of another one.
-- ARGV: mend:flag names...
-- `names` are up to 100 keys.
-- Reply: three texts for each fault: its kind, sid, key; and the names of lists that are too long to be checked here.
-- needs: partition, record_owner, faults
local too_long, bytes = {}, 0

local function rest_of(name, beginning)
  return string.sub(name, 1, #beginning) == beginning and string.sub(name, #beginning + 1)
end

local function check_list(name, user_id)
  if redis.call("TYPE", name)["ok"] ~= "zset" then return fault(mend, "unknown", "", name) end
  if bytes > BYTES_MAX or redis.call("ZCARD", name) > 10 then return table.insert(too_long, name) end
  for _, sid in ipairs(redis.call("ZRANGE", name, 0, -1)) do
    local record = redis.call("HGET", login, sid)
    bytes = bytes + (record and #record or 0)
    if not may_be_of(record, user_id) and fault(mend, "stray", sid, name) then redis.call("ZREM", name, sid) end
  end
end

local function outstays(name)
  local left = redis.call("PTTL", name)
  return left == -1 or left > DAY
end

local function check_key_of_session(name, viewer, gone)
  local lives = redis.call("HEXISTS", login, viewer or gone) == 1
  local wrong = viewer and not lives or gone and (lives or outstays(name))
  if wrong and fault(mend, "stray", viewer or gone, name) then redis.call("DEL", name) end
end

for _, name in ipairs(names) do
  -- It may have gone since it was listed.
  if redis.call("EXISTS", name) == 1 then
    local user_id = rest_of(name, online_user_of)
    if user_id then
      check_list(name, user_id)
    else
      check_key_of_session(name, rest_of(name, viewed_by), rest_of(name, ended_of))
    end
  end
end
return { faults, too_long }
