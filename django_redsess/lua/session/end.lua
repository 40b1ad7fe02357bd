-- End sessions: those that are named, or up to AT_ONCE_MAX of a list.
-- KEYS: source?
-- ARGV: reason message began_by:number since:number kept_sids:list kept_users:list low high skipped:number sids...
-- `source` is the list. Then `low` and `high` are scores in it, and so many of the lowest are left out because they
-- stay; else `sids` are up to AT_ONCE_MAX. A reason of "" says that nobody is told: nobody has had these sessions. The
-- message is for their users to read.
-- Sessions stay that began after `began_by`, or were not seen since `since` (nil: none stays for that), and the kept.
-- Reply: how many sids it has dealt with; of a list, 1 if that was not all, and where to go on: the score, and how many
-- to leave out there; of named ones, the new sids of those that have got another key. See with_ended.
-- needs: partition, seen, record_header, record_times, notes, remove
local sids_kept, users_kept, scores, size = {}, {}, {}, 0
for _, sid in ipairs(kept_sids) do sids_kept[sid] = true end
for _, user_id in ipairs(kept_users) do users_kept[user_id] = true end
if source then
  local flat =
    redis.call("ZRANGE", source, low, high, "BYSCORE", "LIMIT", skipped, AT_ONCE_MAX, "WITHSCORES")
  for index = 1, #flat, 2 do
    sids[#sids + 1] = flat[index]
    scores[#scores + 1] = flat[index + 1]
  end
end

-- Of a guest's session it is known when it was seen and when its record was written, but not when it began.
local function began_later(login_time, seen_at, record)
  if login_time then return tonumber(login_time) > began_by end
  return seen_at > began_by and written_at(record or "") > began_by
end

local function is_kept(sid)
  if sids_kept[sid] then return true end
  if not began_by and not since and #kept_users == 0 then return false end
  local seen_at = tonumber(last_seen(sid) or 0)
  if since and seen_at < since then return true end
  local login_time = redis.call("ZSCORE", online_user, sid)
  local record = (#kept_users > 0 or not login_time) and redis.call("HGET", login, sid)
  size = size + (record and #record or 0)
  return began_by and began_later(login_time, seen_at, record) or users_kept[user_of(record)] or false
end

local ending, places, stays, dealt_with = {}, {}, {}, 0
for place, sid in ipairs(sids) do
  if size > BYTES_MAX then break end
  dealt_with = place
  stays[place] = is_kept(sid)
  if not stays[place] then
    ending[#ending + 1] = sid
    places[#ending] = place
  end
end
local count = remove(ending, reason ~= "" and reason, nil, false, message)
if count < #ending then dealt_with = places[count + 1] - 1 end

-- Sessions that stay may be seen meanwhile, and move up. So the next call goes on from a score, and not from a rank.
local score = scores[dealt_with]
local left_out = score and tonumber(score) == tonumber(low) and skipped or 0
for place = 1, dealt_with do
  if stays[place] and scores[place] == score then left_out = left_out + 1 end
end
-- If all that were named have ended now, none has moved, and no note needs to be read.
local moved = {}
for index = 1, (source or ended[2] == count) and 0 or count do
  local sid = string.match(note_of(ending[index]), "^rotated (%S+)")
  if sid then moved[#moved + 1] = sid end
end
local more = (dealt_with < #sids or #sids == AT_ONCE_MAX) and 1 or 0
return with_ended({ dealt_with, more, score or "", left_out, moved })
