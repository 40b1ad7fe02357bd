-- Removing sessions that are due, and comparing all keys.
-- Other names: KEYS and ARGV of a script are locals of it. All functions and constants that are not defined here are in
-- common.lua.

-- Whether a record is one of a certain user.

-- Whether a record may be one of this user. A record that can't be read may be anybody's.
local function may_be_of(record, user_id)
  return record and (not is_readable(record) or user_id ~= "" and user_of(record) == user_id)
end

-- When the user of a record signed in. The record must be readable, and have a user.
local function login_time_of(record)
  return digits((struct.unpack(">I6", record, length_at + 1 + string.byte(record, length_at))))
end

-- What a check finds.

-- Three texts for each fault: its kind, sid, key.
local faults = {}

-- Add a fault to the reply. Returns `mend`: whether to mend it.
local function fault(mend, kind, sid, key)
  for _, part in ipairs({ kind, sid, key }) do faults[#faults + 1] = part end
  return mend
end

--- expire: End sessions that are due.
-- KEYS: partition
-- ARGV: limit named:flag
-- At most `limit` end. `named` asks for whom it ended.
-- Reply: 1 if more are due, else 0. See with_ended.
remove_sessions(due_sids(limit), "expired", expire, not named)
local first = first_deadline()
return with_ended(first and first <= now and 1 or 0)

--- next_deadline: Read how long it is until the first deadline.
-- KEYS: partition
-- Reply: milliseconds, from 0 to a day; or false if there is none.
local first = first_deadline()
return first and math.max(0, math.min(first - now, DAY))

--- backlog: Count what there is to clean.
-- KEYS: partition
-- ARGV: sampled
-- `sampled` due sessions are looked up, to estimate how many due sessions are guests'.
-- Reply: how many sessions are due; how many have a user; how many are guests'; how many due ones were looked up; how
-- many of these are guests'.
local sids, of_guests = redis.call("ZRANGE", expire, "-inf", digits(now), "BYSCORE", "LIMIT", 0, sampled), 0
for _, seen_at in ipairs(#sids > 0 and redis.call("ZMSCORE", guests, unpack(sids)) or {}) do
  of_guests = of_guests + (seen_at and 1 or 0)
end
return {
  redis.call("ZCOUNT", expire, "-inf", digits(now)), redis.call("ZCARD", recent), redis.call("ZCARD", guests),
  #sids, of_guests,
}

--- scan_keys: List some names of keys.
-- ARGV: cursor pattern about
-- `about` is roughly how many.
-- Reply: that of SCAN.
return redis.call("SCAN", cursor, "MATCH", pattern, "COUNT", about)

--- check_keys: Compare keys that belong to one session or one user with the sessions, and mend what disagrees if told
-- to: what a session viewed that is gone; the note of an end whose session is there, or that stays for longer than a
-- day; and in the list of a user, a session of another one.
-- KEYS: partition
-- ARGV: mend:flag names...
-- `names` are up to 100 keys.
-- Reply: three texts for each fault: its kind, sid, key; and the names of lists that are too long for this script.
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

--- check_entries: Compare some entries of one key with the other keys, and mend what disagrees if told to. A record
-- with a deadline is a session, and belongs into each list of its kind. A record without a deadline is removed, and so
-- is a deadline without a record. A session whose last visit is more than an hour ahead was seen by a fast clock: it
-- counts as seen now.
-- KEYS: partition walked
-- ARGV: mend:flag cursor about owner?
-- `walked` is the key. The cursor is 0 at first and at the end. `about` is roughly how many entries. `owner` is the
-- user id, if the key is a user's list.
-- Reply: cursor; how many entries; how many bytes of records; three texts for each fault: its kind, sid, key; how many
-- sessions have a record that is only sealed; of the encrypted ones, the name of each key, and how many it has. See
-- with_ended.
local bytes, sealed, encrypted = 0, 0, {}

-- A session must be in a list with this score; or must not be there (nil).
local function check_entry(key, sid, score)
  local found = redis.call("ZSCORE", key, sid)
  if not score and found and fault(mend, "stray", sid, key) then redis.call("ZREM", key, sid) end
  if score and not found and fault(mend, "missing", sid, key) then redis.call("ZADD", key, score, sid) end
  return found
end

local function check_seen(key, sid, score)
  if tonumber(score) > now + HOUR and fault(mend, "ahead", sid, key) then
    redis.call("ZADD", key, "XX", digits(now), sid)
  end
end

local function check_session(sid, record)
  bytes = bytes + #record
  if not is_readable(record) then return fault(mend, "unreadable", sid, login) end
  if not redis.call("ZSCORE", expire, sid) then
    if fault(mend, "missing", sid, expire) then remove_sessions({ sid }, "invalidated") end
    return
  end
  if is_encrypted(record) then
    local name = key_name_of(record)
    encrypted[name] = (encrypted[name] or 0) + 1
  else
    sealed = sealed + 1
  end
  local user_id = user_of(record)
  local own, others = seen_list_of(user_id), user_id == "" and recent or guests
  local seen_at = redis.call("ZSCORE", own, sid) or redis.call("ZSCORE", others, sid) or digits(now)
  check_entry(own, sid, seen_at)
  check_entry(others, sid)
  check_seen(own, sid, seen_at)
  if user_id == "" then return check_entry(online_user, sid) end
  local login_time = login_time_of(record)
  for _, key in ipairs({ online_user, online_user_of .. user_id }) do
    if tonumber(check_entry(key, sid, login_time) or login_time) ~= tonumber(login_time) then
      if fault(mend, "differs", sid, key) then redis.call("ZADD", key, login_time, sid) end
    end
  end
end

local function encrypted_counts()
  local counts = {}
  for name, count in pairs(encrypted) do
    counts[#counts + 1] = name
    counts[#counts + 1] = count
  end
  return counts
end

-- An entry of a list must have a session; in the list of a user, one of that user.
local function check_listed(sid)
  local belongs
  if owner then
    local record = redis.call("HGET", login, sid)
    bytes = bytes + (record and #record or 0)
    belongs = may_be_of(record, owner)
  else
    belongs = redis.call("HEXISTS", login, sid) == 1
  end
  if not belongs and fault(mend, "stray", sid, walked) then redis.call("ZREM", walked, sid) end
end

-- The list of a user is read by rank: ZSCAN would return a short one all at once. The cursor is the rank + 1.
if owner then
  local first, before = math.max(0, cursor - 1), redis.call("ZCARD", walked)
  local sids = redis.call("ZRANGE", walked, first, first + about - 1)
  for _, sid in ipairs(sids) do check_listed(sid) end
  local after = redis.call("ZCARD", walked)
  local next_rank = first + #sids - (before - after)
  return with_ended({ next_rank < after and next_rank + 1 or 0, #sids, bytes, faults, sealed, {} })
end

local next_cursor, entries = unpack(redis.call(walked == login and "HSCAN" or "ZSCAN", walked, cursor, "COUNT", about))
for at = 1, #entries, 2 do
  if walked == login then check_session(entries[at], entries[at + 1]) else check_listed(entries[at]) end
end
return with_ended({ next_cursor, #entries / 2, bytes, faults, sealed, encrypted_counts() })
