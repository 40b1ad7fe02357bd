-- How many sessions a user may have.
-- Other names: KEYS and ARGV of a script are locals of it. AT_ONCE_MAX, now, remove_sessions and with_ended are in
-- common.lua.

-- If a user has more sessions, only so many are looked at: those that signed in first.
local looked_at_max = 1000

-- How many of a user's sessions there are besides these two sids (the second may be nil), of `others` in all.
local function count_others(others, list, sid, old_sid)
  for _, own in ipairs({ sid, old_sid }) do
    if redis.call("ZSCORE", list, own) then others = others - 1 end
  end
  return others
end

-- Sort the user's sessions besides these two sids by sign-in. Returns: those that are not due; those that are; the place
-- of each; and when it signed in.
local function sort_others(list, sid, old_sid)
  local flat = redis.call("ZRANGE", list, 0, looked_at_max - 1, "WITHSCORES")
  local sids, live, overdue, place, signed_in = {}, {}, {}, {}, {}
  for index = 1, #flat, 2 do
    sids[#sids + 1] = flat[index]
    signed_in[flat[index]] = tonumber(flat[index + 1])
  end
  local deadlines = redis.call("ZMSCORE", expire, unpack(sids))
  for index, other in ipairs(sids) do
    place[other] = index
    if other ~= sid and other ~= old_sid then
      local is_due = tonumber(deadlines[index] or 0) <= now
      table.insert(is_due and overdue or live, other)
    end
  end
  return live, overdue, place, signed_in
end

-- Return the sids of `live` that have a record. Add the others to `overdue`: a store that was restored in part has some.
local function with_record(live, overdue)
  -- Each session has a record and a deadline. To look for each record takes longer.
  if redis.call("HLEN", login) >= redis.call("ZCARD", expire) then return live end
  local found = {}
  for _, sid in ipairs(live) do
    table.insert(redis.call("HEXISTS", login, sid) == 1 and found or overdue, sid)
  end
  return found
end

-- Put sessions in the order in which they end: the longest unseen first; of those that were last seen at the same time,
-- the one that signed in first. `unused_first` puts those before that were never used since they signed in: a program
-- that signs in for each request leaves them. The latest tenth of all may be about to be used, and is left out of this.
local function sort_to_end(live, place, signed_in, unused_first)
  local seen, is_unused = {}, {}
  for index, at in ipairs(redis.call("ZMSCORE", recent, unpack(live))) do seen[live[index]] = tonumber(at or 0) end
  for index = 1, unused_first and #live - math.floor(#live / 10) or 0 do
    local sid = live[index]
    if seen[sid] <= signed_in[sid] then is_unused[sid] = true end
  end
  table.sort(live, function(one, other)
    if is_unused[one] ~= is_unused[other] then return is_unused[one] or false end
    return seen[one] < seen[other] or seen[one] == seen[other] and place[one] < place[other]
  end)
end

-- Find the sessions that must end so that a user has no more than `limit` (nil: any number), with the one that signs in
-- as `sid`, in place of `old_sid` (nil: of none). Where a partition has `full_at` sessions with a user (nil: never full),
-- one of this user must end, so that nobody else's does. Returns up to AT_ONCE_MAX sids, or nil if the sign-in is
-- refused; how many must end in all; the reason; and what does not count: sessions that are due, and entries without a
-- session. If there are others behind them, these go first: then none of the sessions is known to be too many.
local function above_limit(user_id, sid, old_sid, limit, policy, full_at)
  if not limit and not full_at then return {}, 0, "", {} end
  local list = online_user_of .. user_id
  local count = redis.call("ZCARD", list)
  local is_full = count > 0 and full_at and redis.call("ZCARD", recent) >= full_at
  if not is_full and count < (limit or math.huge) then return {}, 0, "", {} end
  local others = count_others(count, list, sid, old_sid)
  local live, overdue, place, signed_in = sort_others(list, sid, old_sid)
  local most = (limit or math.huge) - 1
  if others - #overdue > most then live = with_record(live, overdue) end
  local excess, reason = others - #overdue - most, "replaced"
  if excess < 1 then
    if not is_full or #overdue > 0 or #live == 0 then return {}, 0, "", overdue end
    excess, reason, policy = 1, "evicted", "end_unused"
  end
  if policy == "refuse" then return nil, 0, "", overdue end
  if #overdue > 0 and #live + #overdue < others then return {}, math.huge, "", overdue end

  if policy ~= "end_oldest" then sort_to_end(live, place, signed_in, policy == "end_unused") end
  return { unpack(live, 1, math.min(excess, #live, AT_ONCE_MAX)) }, excess, reason, overdue
end

-- End sessions of a user's list, up to AT_ONCE_MAX. Returns how many of the sids were dealt with.
local function end_of_user(user_id, sids, reason)
  local count, _, unknown = remove_sessions(sids, reason)
  -- No record says whose list has them. If they stayed there, the caller would go on for ever.
  if unknown > 0 then redis.call("ZREM", online_user_of .. user_id, unpack(sids, 1, count)) end
  return count
end

-- End what above_limit found. Returns "crowded" if more must end, else "".
local function end_excess(user_id, leaving, excess, reason, uncounted)
  local count = end_of_user(user_id, leaving, reason)
  local room = count == #leaving and AT_ONCE_MAX - count or 0
  local dealt_with = end_of_user(user_id, { unpack(uncounted, 1, room) }, "expired")
  return (count < excess or dealt_with < #uncounted) and "crowded" or ""
end

-- The reply of a sign-in that is refused. While there are any that do not count, they are taken out, and the caller
-- tries again: they may hide that there are too few.
local function reply_of_refusal(user_id, uncounted)
  end_excess(user_id, {}, 0, "", uncounted)
  return with_ended({ #uncounted > 0 and "again" or "refused" })
end

--- end_above: End sessions of a user above a limit: the rest, if a sign-in has found too many for one script.
-- KEYS: partition
-- ARGV: user_id sid limit:number policy
-- `sid` is the session that signed in. It stays.
-- Reply: "crowded" if that was not all, else "". See with_ended.
-- It may have been ended by a later sign-in: then no room is kept for it.
if not redis.call("ZSCORE", online_user_of .. user_id, sid) then limit = limit + 1 end
local leaving, excess, reason, uncounted = above_limit(user_id, sid, nil, limit, policy)
return with_ended(leaving and end_excess(user_id, leaving, excess, reason, uncounted) or "")
