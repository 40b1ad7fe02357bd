-- Sessions: added, saved, moved, ended.
-- Other names: KEYS and ARGV of a script are locals of it. first_write and spared are in eviction.lua; above_limit,
-- end_excess and reply_of_refusal in user_limit.lua; forget_block, has_old_block and is_blocked in blocks.lua; the rest
-- in common.lua.

-- Whether a session lives.

-- The record of a session that is there and not due, and its deadline; else false.
local function live_record(sid)
  local deadline = deadline_ahead(sid)
  return deadline and redis.call("HGET", login, sid), deadline
end

-- Why a session is gone.

-- The note of a session that is gone; "" for none. If the session got another key, the note is "rotated" and the new sid,
-- "guest" if it had no user, and "follow" if sockets that watch it go on under the new sid. Otherwise it is the reason of
-- the end, the time, and the message for the user.
local function note_of(sid)
  -- pcall: another program may have stored anything there.
  local note = redis.pcall("GET", ended_of .. sid)
  return type(note) == "string" and note or ""
end

-- A session's entries in the sorted sets.

-- Write a deadline. `before` is the one so far, or that of the old sid; nil for a new session.
local function set_deadline(sid, due, before)
  -- A cleaner sleeps until the first deadline, a day at most. An earlier one wakes it: once, however many come.
  local may_wake = (not before or due < before) and due < now + DAY
  local first = may_wake and first_deadline()
  redis.call("ZADD", expire, digits(due), sid)
  -- pcall: the session is written, even if a full server refuses this.
  if may_wake and (not first or due < first) and redis.pcall("LLEN", wake) == 0 then
    redis.pcall("LPUSH", wake, "earlier")
  end
end

-- Whether a save signs a user in. A sign-in counts as a visit. Other saves do not: a job may make them, and a request has
-- touched the session when it read it.
local function signs_in(user_before, user_id, login_time, at)
  return user_id ~= "" and (user_before ~= user_id or login_time == at)
end

-- Enter a session into the lists of its kind, as seen at that time. A user id of "" stands for a guest.
local function enter(sid, user_id, login_time, at)
  redis.call("ZADD", seen_list_of(user_id), "GT", at, sid)
  if user_id == "" then return end
  redis.call("ZADD", online_user, login_time, sid)
  redis.call("ZADD", online_user_of .. user_id, login_time, sid)
  if has_old_block then forget_block(user_id) end
end

-- Remove a session that could not be entered into each of these `lists`, and fail: another program has stored another
-- type under one of the names. Otherwise each visitor would leave a record that nothing removes.
local function take_back(sid, lists, failure)
  redis.call("HDEL", login, sid)
  for _, list in ipairs(lists) do redis.pcall("ZREM", list, sid) end
  error(failure, 0)
end

-- Take a session out of these lists.
local function leave(sid, user_id)
  redis.call("ZREM", seen_list_of(user_id), sid)
  if user_id == "" then return end
  redis.call("ZREM", online_user, sid)
  redis.call("ZREM", online_user_of .. user_id, sid)
end

-- A session under a new sid.

-- Add a session to every key. `before` is as in set_deadline.
local function add_session(sid, record, user_id, login_time, at, due, before)
  first_write(sid, record)
  local done, failure = pcall(function()
    set_deadline(sid, due, before)
    enter(sid, user_id, login_time, at)
  end)
  if done then return end
  take_back(sid, { expire, seen_list_of(user_id), online_user, online_user_of .. user_id }, failure)
end

-- When a record was written, or up to a second earlier. If the deadline was set as a date, that date.
local function written_at(record)
  if #record < length_at then return 0 end
  local deadline, age = struct.unpack(">I5I4", record, 8)
  return (deadline - age - 1) * 1000
end

-- Sessions that stay while others end.

-- Whether a session began later than `began_by`. Of a guest's session it is known when it was seen and when its record
-- was written, but not when it began.
local function began_later(began_by, login_time, seen_at, record)
  if login_time then return tonumber(login_time) > began_by end
  return seen_at > began_by and written_at(record or "") > began_by
end

-- The members of a list, as the keys of a table.
local function set_of(list)
  local set = {}
  for _, member in ipairs(list) do set[member] = true end
  return set
end

-- Sort out which of these sids end. Those stay that began after `began_by`, or were not seen since `since` (nil: none
-- stays for that), and the kept. Returns: those that end; the place of each among `sids`; for each place whether it
-- stays; and how many places were looked at. It stops where the records that it had to read have too many bytes.
local function sort_out_ending(sids, began_by, since, kept_sids, kept_users)
  local sids_kept, users_kept, size = set_of(kept_sids), set_of(kept_users), 0

  local function is_kept(sid)
    if sids_kept[sid] then return true end
    if not began_by and not since and #kept_users == 0 then return false end
    local seen_at = tonumber(last_seen(sid) or 0)
    if since and seen_at < since then return true end
    local login_time = redis.call("ZSCORE", online_user, sid)
    local record = (#kept_users > 0 or not login_time) and redis.call("HGET", login, sid)
    size = size + (record and #record or 0)
    return began_by and began_later(began_by, login_time, seen_at, record) or users_kept[user_of(record)] or false
  end

  local ending, places, stays, looked_at = {}, {}, {}, 0
  for place, sid in ipairs(sids) do
    if size > BYTES_MAX then break end
    looked_at = place
    stays[place] = is_kept(sid)
    if not stays[place] then
      ending[#ending + 1] = sid
      places[#ending] = place
    end
  end
  return ending, places, stays, looked_at
end

--- create_fast: Add a session under a sid that is certainly new. This is the short way to create, and enough for most.
-- KEYS: login expire totals seen_list online_user? online_user_of? blocked?
-- ARGV: sid record at due user_id limit:number full_at:number
-- ONCE: first
-- With a user, seen_list is recent, and the next three keys are given. For a guest, whose user id is "", it is guests. The
-- record was made at the time `at`. `limit` and `full_at` are as in above_limit.
-- Reply: 1. Or nothing is written: as text the time by which the record must be made; or 0, and `create` must be called:
-- one of the user's sessions may have to end, the user is or was blocked, or this is a repetition.
if not first or is_blocked(user_id) or has_old_block then return 0 end
local expected = steady_time_of(seen_list)
if not is_made_at(at, expected) then return digits(expected) end
local own = user_id ~= "" and redis.call("ZCARD", online_user_of .. user_id) or 0
if own > 0 and (limit and own >= limit or full_at and redis.call("ZCARD", seen_list) >= full_at) then return 0 end
-- pcall: a full server refuses it, and `create` can make room.
if type(redis.pcall("HSET", login, sid, record)) == "table" then return 0 end
local done, failure = pcall(function()
  redis.call("ZADD", expire, due, sid)
  redis.call("ZADD", seen_list, at, sid)
  if user_id ~= "" then
    redis.call("ZADD", online_user, at, sid)
    redis.call("ZADD", online_user_of .. user_id, at, sid)
  end
end)
if not done then
  local lists = { expire, seen_list }
  if user_id ~= "" then lists = { expire, seen_list, online_user, online_user_of .. user_id } end
  take_back(sid, lists, failure)
end
-- pcall: the session is there, whatever is stored in place of this count.
redis.pcall("HINCRBY", totals, "created", 1)
return 1

--- create: Add a session. Only this script and `create_fast` add sessions.
-- KEYS: partition
-- ARGV: sid record user_id login_time at due:number limit:number policy full_at:number viewed:list
-- ONCE: is_new:flag
-- `is_new` says that the sid was never used. `viewed` are the items of a session that comes from another partition: item,
-- time, item, time, … `limit` is how many sessions the user may have (nil: any number), `policy` what happens above that,
-- `full_at` as in above_limit. The rest is as in `save`.
-- Reply: "saved", then "crowded" if the user may still have too many. Or nothing is written: "taken" if another session
-- has this sid; "clock" and the time by which the record must be made; "refused"; "blocked"; "again" if it may be
-- refused, and entries that do not count were taken out. See with_ended.
local found = not is_new and redis.call("HGET", login, sid)
-- The client repeats a command whose reply was lost. Whether that reply said "crowded" is not known: it is said again.
if found then
  return with_ended({ revision_of(found) == revision_of(record) and "saved" or "taken", limit and "crowded" })
end
-- A repetition brings no session back that has ended meanwhile.
if not is_new and note_of(sid) ~= "" then return with_ended({ "taken" }) end
if is_blocked(user_id) then return with_ended({ "blocked" }) end
local expected = steady_time_of(seen_list_of(user_id))
if not is_made_at(at, expected) then return with_ended({ "clock", digits(expected) }) end
local leaving, excess, reason, uncounted = above_limit(user_id, sid, nil, limit, policy, full_at)
if not leaving then return reply_of_refusal(user_id, uncounted) end

add_session(sid, record, user_id, login_time, at, due)
for index = 1, viewed and #viewed or 0, 2 do
  redis.call("ZADD", viewed_by .. sid, viewed[index + 1], viewed[index])
end
-- pcall: the session is there, even if a full server refuses this.
if not viewed then redis.pcall("HINCRBY", totals, "created", 1) end
return with_ended({ "saved", end_excess(user_id, leaving, excess, reason, uncounted) })

--- save_fast: Replace the record of a session that is still as it was loaded. This is the short way, for most saves;
-- `save` is for all others.
-- KEYS: login expire
-- ARGV: sid loaded record due
-- `loaded` is the revision that was loaded, `due` a deadline, or "" to keep the one there is. A later deadline stays.
-- Reply: 1. Or nothing is written: the record that is there; or false or 0, and `save` must be called.
local found = redis.call("HGET", login, sid)
if not found or string.sub(found, 2, 7) ~= loaded then return found end
-- pcall: a full server refuses it, and `save` can make room.
if type(redis.pcall("HSET", login, sid, record)) == "table" then return 0 end
if due ~= "" then redis.call("ZADD", expire, "XX", "GT", due, sid) end
return 1

--- save: Replace the record of a session that is still there, and still as it was loaded.
-- KEYS: partition
-- ARGV: sid record user_id login_time at due:number later_stays:flag loaded
-- The record was made `at` that time. A guest has "" as user id and login time. `later_stays` keeps a later deadline.
-- `loaded` is the revision that was loaded, "" to replace any.
-- Reply: "saved". Or nothing is written: "gone" and the note; "changed" and the record that is there; "clock" and the
-- time by which the record must be made; "blocked" if its user is new here and blocked. See with_ended.
local found, before = live_record(sid)
if not found then return with_ended({ "gone", note_of(sid) }) end
-- The client repeats a command whose reply was lost: then its record is there already.
if revision_of(found) == revision_of(record) then return with_ended({ "saved" }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found }) end
local user_before = user_of(found)
if user_before ~= user_id and is_blocked(user_id) then return with_ended({ "blocked" }) end
local seen_at = redis.call("ZSCORE", seen_list_of(user_before), sid)
local expected = steady_time(seen_at)
if not is_made_at(at, expected) then return with_ended({ "clock", digits(expected) }) end

if not seen_at or signs_in(user_before, user_id, login_time, at) then seen_at = at end
first_write(sid, record)
if later_stays then due = math.max(due, before) end
if due ~= before then set_deadline(sid, due, before) end
if user_before ~= user_id then leave(sid, user_before) end
enter(sid, user_id, login_time, seen_at)
return with_ended({ "saved" })

--- prolong: Move the deadline of a session, if it is still the one that was read, and still ahead.
-- KEYS: expire seen_list
-- ARGV: sid read:number due:number
-- `seen_list` is recent if there is a user, else guests. `read` is the deadline that was read, `due` the new one.
-- Reply: 1 if it has moved, else 0.
local before = tonumber(redis.call("ZSCORE", expire, sid) or 0)
if before ~= read or before <= now then return 0 end
if due < before then
  -- Last seen is ahead of now: the clock has stepped back. That must not move a deadline earlier. The second is for the
  -- caller's time, which is no more exact.
  local ahead = tonumber(redis.call("ZSCORE", seen_list, sid) or 0) - now
  if ahead > 0 then due = math.min(before, due + ahead + 1000) end
end
-- pcall: a full server refuses this, and the session can be read all the same.
local moved = due ~= before and redis.pcall("ZADD", expire, "XX", "CH", digits(due), sid)
return moved == 1 and 1 or 0

--- rotate: Give a session a new sid and a new record, and move what it viewed. For five minutes a note under the old
-- sid tells late requests.
-- KEYS: partition
-- ARGV: old_sid sid record user_id login_time at due:number loaded limit:number policy full_at:number follows:flag
-- A record of "" says that the new sid has been created in another partition. `limit`, `policy` and `full_at` are as in
-- `create`, the rest as in `save`. With `follows`, sockets that watch the old sid go on under the new one.
-- Reply: as that of `save`. But "saved" is followed by "crowded" if the user may still have too many; it may be
-- "refused" or "again", as in `create`; and it is "blocked" whoever was the user before. It is "moved", and the record
-- that is there, if an earlier call has moved the session to this sid with another record: its caller was interrupted.
local note, note_lifetime = "rotated " .. sid, 300000

-- The client repeats a command whose reply was lost: then the session has moved already.
if string.sub(note_of(old_sid), 1, #note) == note then
  local there = record ~= "" and redis.call("HGET", login, sid)
  if there and revision_of(there) ~= revision_of(record) then return with_ended({ "moved", there }) end
  return with_ended({ "saved", limit and "crowded" })
end
local found, before = live_record(old_sid)
if not found then return with_ended({ "gone", note_of(old_sid) }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found }) end
if is_blocked(user_id) then return with_ended({ "blocked" }) end
local expected = steady_time_of(seen_list_of(user_id))
if record ~= "" and not is_made_at(at, expected) then return with_ended({ "clock", digits(expected) }) end
local leaving, excess, reason, uncounted = above_limit(user_id, sid, old_sid, limit, policy, full_at)
if not leaving then return reply_of_refusal(user_id, uncounted) end

-- The new sid first: if a full server refuses it, the old one is as it was.
if record ~= "" then
  spared[old_sid] = true
  local seen_at = not signs_in(user_of(found), user_id, login_time, at) and last_seen(old_sid) or at
  add_session(sid, record, user_id, login_time, seen_at, due, before)
  if redis.call("EXISTS", viewed_by .. old_sid) == 1 then
    redis.call("RENAME", viewed_by .. old_sid, viewed_by .. sid)
  end
end
redis.call("HDEL", login, old_sid)
redis.call("ZREM", expire, old_sid)
leave(old_sid, user_of(found))
if record == "" then redis.call("DEL", viewed_by .. old_sid) end
if user_of(found) == "" then note = note .. " guest" end
if follows then note = note .. " follow" end
redis.call("SET", ended_of .. old_sid, note, "PX", note_lifetime)
return with_ended({ "saved", end_excess(user_id, leaving, excess, reason, uncounted) })

--- touch_proven: Touch a session, unless it is bound to a device and the request has no proof of that binding.
-- KEYS: login recent guests
-- ARGV: sid seen binding
-- `seen` is the last-seen time. `binding` is the id of the binding that the request proves, "" for none.
-- Reply: 1 if the session was touched, else 0.
local record = redis.call("HGET", login, sid)
if not record or not is_readable(record) then return 0 end
local bound_to = binding_of(record)
if bound_to ~= "" and bound_to ~= binding then return 0 end
-- A session is in one of two lists.
for _, list in ipairs({ recent, guests }) do redis.call("ZADD", list, "XX", "GT", seen, sid) end
return 1

--- end_sids: End sessions that are named.
-- KEYS: partition
-- ARGV: reason message began_by:number since:number kept_sids:list kept_users:list sids...
-- There are up to AT_ONCE_MAX `sids`. With a reason of "", no end is reported: nobody has used these sessions. The message
-- is for their users. Which sessions stay: see sort_out_ending.
-- Reply: how many sids it has dealt with, and the new sids of those that have got another key. See with_ended.
local ending, places, _, dealt_with = sort_out_ending(sids, began_by, since, kept_sids, kept_users)
local count = remove_sessions(ending, reason ~= "" and reason, nil, false, message)
if count < #ending then dealt_with = places[count + 1] - 1 end
-- If this call has ended all of them, none has moved, and no note needs to be read.
local moved = {}
for index = 1, ended[2] == count and 0 or count do
  local sid = string.match(note_of(ending[index]), "^rotated (%S+)")
  if sid then moved[#moved + 1] = sid end
end
return with_ended({ dealt_with, moved })

--- end_range: End up to AT_ONCE_MAX sessions of a list, by their scores in it.
-- KEYS: partition source
-- ARGV: reason message began_by:number since:number kept_sids:list kept_users:list low high skipped:number
-- `source` is the list, `low` and `high` are scores in it. The `skipped` lowest are left out, because they stay. The rest
-- is as in `end_sids`.
-- Reply: 1 if that was not all, else 0; and where to go on: the score, and how many to leave out there. See with_ended.
local sids, scores = {}, {}
local flat = redis.call("ZRANGE", source, low, high, "BYSCORE", "LIMIT", skipped, AT_ONCE_MAX, "WITHSCORES")
for index = 1, #flat, 2 do
  sids[#sids + 1] = flat[index]
  scores[#scores + 1] = flat[index + 1]
end
local ending, places, stays, dealt_with = sort_out_ending(sids, began_by, since, kept_sids, kept_users)
local count = remove_sessions(ending, reason ~= "" and reason, nil, false, message)
-- Entries without a record, or with a record of another list, are still there. The next call would find them again.
if count > 0 then redis.call("ZREM", source, unpack(ending, 1, count)) end
if count < #ending then dealt_with = places[count + 1] - 1 end

-- Sessions that stay may be seen meanwhile, and move up. So the next call goes on from a score, and not from a rank.
local score = scores[dealt_with]
local left_out = score and tonumber(score) == tonumber(low) and skipped or 0
for place = 1, dealt_with do
  if stays[place] and scores[place] == score then left_out = left_out + 1 end
end
local more = (dealt_with < #sids or #sids == AT_ONCE_MAX) and 1 or 0
return with_ended({ more, score or "", left_out })
