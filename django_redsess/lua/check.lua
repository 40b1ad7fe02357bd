-- Compare some entries of one key with the other keys, and mend what disagrees if told to. A record with a deadline is
-- a session, and belongs into each list of its kind. What lacks either is none, and goes. A session that was seen more
-- than an hour ahead of now was so by a clock that was fast: it counts as seen now.
-- KEYS: those of partition.lua, then the key to walk through. ARGV: "mend" or ""; cursor, 0 at first and at the end;
-- about how many entries; and for the list of a user, the user id. Reply: cursor, how many entries, how many bytes of
-- records, and three texts for each fault: its kind, sid, key; see with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include remove.lua
local walked, mend, cursor, about, owner = KEYS[11], ARGV[1] == "mend", ARGV[2], ARGV[3], ARGV[4]
local faults, bytes = {}, 0

local function fault(kind, sid, key)
  for _, part in ipairs({ kind, sid, key }) do faults[#faults + 1] = part end
  return mend
end

-- Has a session in a list, with a score, or has it not there (nil).
local function check_entry(key, sid, score)
  local found = redis.call("ZSCORE", key, sid)
  if not score and found and fault("stray", sid, key) then redis.call("ZREM", key, sid) end
  if score and not found and fault("missing", sid, key) then redis.call("ZADD", key, score, sid) end
  return found
end

local function check_time(key, sid, score)
  if tonumber(score) <= now + 3600000 then return score end
  if fault("ahead", sid, key) then
    redis.call("ZADD", key, "XX", text(now), sid)
    return text(now)
  end
  return score
end

local function check_session(sid, record)
  bytes = bytes + #record
  if not is_readable(record) then return fault("unreadable", sid, login) end
  if not redis.call("ZSCORE", expire, sid) then
    if fault("missing", sid, expire) then remove({ sid }, "invalidated") end
    return
  end
  local user_id = user_of(record)
  local of_user = online_user_of .. user_id
  local own, others = seen_list_of(user_id), user_id == "" and recent or guests
  local seen = redis.call("ZSCORE", own, sid) or redis.call("ZSCORE", others, sid) or text(now)
  check_entry(own, sid, seen)
  check_entry(others, sid)
  check_time(own, sid, seen)
  if user_id == "" then return check_entry(online_user, sid) end
  local login_time = login_time_of(record)
  for _, key in ipairs({ online_user, of_user }) do
    if tonumber(check_entry(key, sid, login_time) or login_time) ~= tonumber(login_time) then
      if fault("differs", sid, key) then redis.call("ZADD", key, login_time, sid) end
    end
  end
end

-- Of an entry in a list: whether there is a session for it, and in the list of a user, one of that user's.
local function check_listed(sid)
  local belongs
  if owner then
    local record = redis.call("HGET", login, sid)
    bytes = bytes + (record and #record or 0)
    belongs = may_be_of(record, owner)
  else
    belongs = redis.call("HEXISTS", login, sid) == 1
  end
  if not belongs and fault("stray", sid, walked) then redis.call("ZREM", walked, sid) end
end

-- The list of a user goes by rank, since ZSCAN would take all at once of one that is short. Its cursor is the rank + 1.
if owner then
  local first, before = math.max(0, cursor - 1), redis.call("ZCARD", walked)
  local sids = redis.call("ZRANGE", walked, first, first + about - 1)
  for _, sid in ipairs(sids) do check_listed(sid) end
  local after = redis.call("ZCARD", walked)
  local next_rank = first + #sids - (before - after)
  return with_ended({ next_rank < after and next_rank + 1 or 0, #sids, bytes, faults })
end

local next_cursor, entries = unpack(redis.call(walked == login and "HSCAN" or "ZSCAN", walked, cursor, "COUNT", about))
for at = 1, #entries, 2 do
  if walked == login then check_session(entries[at], entries[at + 1]) else check_listed(entries[at]) end
end
return with_ended({ next_cursor, #entries / 2, bytes, faults })
