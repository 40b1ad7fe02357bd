-- Compare some entries of one key with the other keys, and mend what disagrees if told to. A record with a deadline is
-- a session, and belongs into each list of its kind. A record without a deadline, and the reverse, is removed. A
-- session that was seen more than an hour ahead of now was seen by a clock that was fast: it counts as seen now.
-- KEYS: walked
-- ARGV: mend:flag cursor about owner?
-- `walked` is the key. The cursor is 0 at first and at the end. `about` is roughly how many entries. `owner` is the
-- user id, if the key is a user's list.
-- Reply: cursor; how many entries; how many bytes of records; three texts for each fault: its kind, sid, key. See
-- with_ended.
-- needs: partition, clock, seen, record_header, record_times, record_owner, remove, faults
local bytes = 0

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
    if fault(mend, "missing", sid, expire) then remove({ sid }, "invalidated") end
    return
  end
  local user_id = user_of(record)
  local own, others = seen_list_of(user_id), user_id == "" and recent or guests
  local seen_at = redis.call("ZSCORE", own, sid) or redis.call("ZSCORE", others, sid) or digits(now)
  check_entry(own, sid, seen_at)
  check_entry(others, sid)
  -- Whether it is missing in the other one, only the site can tell: see check_places.lua.
  check_entry(user_id == "" and addresses or guests_addresses, sid)
  check_seen(own, sid, seen_at)
  if user_id == "" then return check_entry(online_user, sid) end
  local login_time = login_time_of(record)
  for _, key in ipairs({ online_user, online_user_of .. user_id }) do
    if tonumber(check_entry(key, sid, login_time) or login_time) ~= tonumber(login_time) then
      if fault(mend, "differs", sid, key) then redis.call("ZADD", key, login_time, sid) end
    end
  end
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
  return with_ended({ next_rank < after and next_rank + 1 or 0, #sids, bytes, faults })
end

local next_cursor, entries = unpack(redis.call(walked == login and "HSCAN" or "ZSCAN", walked, cursor, "COUNT", about))
for at = 1, #entries, 2 do
  if walked == login then check_session(entries[at], entries[at + 1]) else check_listed(entries[at]) end
end
return with_ended({ next_cursor, #entries / 2, bytes, faults })
