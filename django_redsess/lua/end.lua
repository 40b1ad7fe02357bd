-- End sessions: those that are named, or up to 250 of a list.
-- KEYS: those of partition.lua, then the list.
-- ARGV: reason, or "" for one that was never anybody's; what their users are to read. Then who stays: those that began
-- after a time, or ""; those not seen since a time, or ""; how many sids, and these; how many users, and these. Then up
-- to 250 sids; or of the list, the lowest and the highest score, and how many of the lowest to leave out because they
-- stay.
-- Reply: how many it has dealt with; of a list, 1 if that was not all, and where to go on: the score, and how many to
-- leave out there; and the new sids of those named that have got another key. See with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include remove.lua
local reason, words, latest, since = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local at, size = 5, 0

local function next_set()
  local set = {}
  for index = at + 1, at + ARGV[at] do set[ARGV[index]] = true end
  at = at + ARGV[at] + 1
  return set
end

local kept_sids, kept_users = next_set(), next_set()
local list = KEYS[11]
local sids, scores = {}, {}
if list then
  local low, high, left_out = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local flat = redis.call("ZRANGE", list, low, high, "BYSCORE", "LIMIT", left_out, 250, "WITHSCORES")
  for index = 1, #flat, 2 do
    sids[#sids + 1] = flat[index]
    scores[#scores + 1] = flat[index + 1]
  end
else
  sids = { unpack(ARGV, at) }
end

-- When a guest's session began is not known, but when it was seen, and when its record was written.
local function began_later(login_time, seen, record)
  if login_time then return tonumber(login_time) > latest end
  return seen > latest and written_at(record or "") > latest
end

local function stays(sid)
  if kept_sids[sid] then return true end
  if not latest and not since and not next(kept_users) then return false end
  local seen = tonumber(last_seen(sid) or 0)
  if since and seen < since then return true end
  local login_time = redis.call("ZSCORE", online_user, sid)
  local record = (next(kept_users) or not login_time) and redis.call("HGET", login, sid)
  size = size + (record and #record or 0)
  return latest and began_later(login_time, seen, record) or kept_users[user_of(record)] or false
end

-- Up to the first that a megabyte leaves no room for.
local ending, places, stay, dealt_with = {}, {}, {}, 0
for place, sid in ipairs(sids) do
  if size > 1048576 then break end
  dealt_with = place
  stay[place] = stays(sid)
  if not stay[place] then
    ending[#ending + 1] = sid
    places[#ending] = place
  end
end
local count = remove(ending, reason ~= "" and reason, nil, false, words)
if count < #ending then dealt_with = places[count + 1] - 1 end

-- Who stays may be seen meanwhile, and move up: so it goes on from a score, and not from a rank.
local score = scores[dealt_with]
local left_out = score and tonumber(score) == tonumber(ARGV[at]) and tonumber(ARGV[at + 2]) or 0
for place = 1, dealt_with do
  if stay[place] and scores[place] == score then left_out = left_out + 1 end
end
-- Where all that was named was there (as `ended` says), none has moved, and no note needs to be read.
local moved = {}
for index = 1, (list or ended[2] == count) and 0 or count do
  local sid = string.match(note_of(ending[index]), "^rotated (.+)$")
  if sid then moved[#moved + 1] = sid end
end
local more = (dealt_with < #sids or #sids == 250) and 1 or 0
return with_ended({ dealt_with, more, score or "", left_out, moved })
