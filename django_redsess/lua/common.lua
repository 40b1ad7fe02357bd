-- Blocks that scripts of several files share. A script gets the blocks that it uses.
-- Other names: a block that uses a key, such as `expire`, is for scripts that have it among their KEYS, which are locals.

-- `partition` among the KEYS of a script stands for all these: login expire recent guests online_user online_user_of
-- viewed_by ended_of wake totals blocked. A user id is appended to online_user_of, a sid to viewed_by and to ended_of.
-- These three names by themselves are never there. So while a cluster moves this slot key by key, it refuses the script
-- before it runs: a key that is met half-way could be on the other node.

-- Numbers that several scripts share, or scripts and Python.

-- The most sessions that one call takes out or looks up. More would keep the server from others for too long.
local AT_ONCE_MAX = 250

-- The most bytes of records that one call reads.
local BYTES_MAX = 1048576

-- The most due sessions that a call takes out which only reads.
local DUE_MAX = 200

-- The most sign-ins of several users that are put in order.
local CONSIDERED_MAX = 5000

-- Milliseconds.
local HOUR = 3600000

-- Milliseconds.
local DAY = 86400000

-- Arguments whose number varies.

-- The arguments from a place on.
local function arguments_from(place)
  local list = {}
  for index = place, #ARGV do list[#list + 1] = ARGV[index] end
  return list
end

-- A list of arguments, and the place of its last one. Its length stands at `place`: "" for no list (nil).
local function list_at(place)
  local length, list = tonumber(ARGV[place]), {}
  for index = place + 1, place + (length or 0) do list[#list + 1] = ARGV[index] end
  return length and list, place + #list
end

-- The server's time, in milliseconds.

-- By how much a test has moved the clock ahead: scripts.move_clock() writes it here.
local MOVED_MS = 0

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000) + MOVED_MS

-- Write a number as digits. Lua's own conversion would write a time as 1.79e+12.
local function digits(number)
  return string.format("%.0f", number)
end

-- The header of a record, as record.py writes it.

-- Where the length of the user id stands.
local length_at = 18

-- Where the login time of a record ends. A guest's record has none.
local function login_end(record)
  local user_id_length = string.byte(record, length_at)
  return length_at + user_id_length + (user_id_length > 0 and 6 or 0)
end

-- Whether a record has this release's format, 6. Another release may write another one.
local function is_readable(record)
  return #record > length_at and string.byte(record, 1) == 54 and #record >= login_end(record)
end

-- The id of the binding of a readable record: 8 bytes behind the login time, if the highest bit of the byte that says how
-- it is written is set. "" for a session that is not bound.
local function binding_of(record)
  if string.byte(record, length_at - 1) < 128 then return "" end
  return string.sub(record, login_end(record) + 1, login_end(record) + 8)
end

-- Whether a readable record is encrypted: the bit 16 of the byte that says how it is written.
local function is_encrypted(record)
  return math.floor(string.byte(record, length_at - 1) / 16) % 2 == 1
end

-- The name of the key that has encrypted a record: the first two bytes behind the header. See encryption.py.
local function key_name_of(record)
  local header_end = login_end(record) + #binding_of(record)
  return string.sub(record, header_end + 1, header_end + 2)
end

-- The user id of a record; "" for a guest's, and for one that can't be read.
local function user_of(record)
  if not record or not is_readable(record) then return "" end
  return string.sub(record, length_at + 1, length_at + string.byte(record, length_at))
end

-- The revision of a record.

-- Each write has a new revision. Two records are the same exactly if their revisions are.
local function revision_of(record)
  return string.sub(record, 2, 7)
end

-- When sessions were last seen.

-- The list that says when sessions of this user were last seen. A user id of "" stands for guests.
local function seen_list_of(user_id)
  return user_id == "" and guests or recent
end

-- When a session was last seen, with a user or without; or false.
local function last_seen(sid)
  return redis.call("ZSCORE", recent, sid) or redis.call("ZSCORE", guests, sid)
end

-- When sessions are due.

-- The earliest deadline of all, or nil.
local function first_deadline()
  return tonumber(redis.call("ZRANGE", expire, 0, 0, "WITHSCORES")[2])
end

-- The deadline of a session, if it is still ahead; or false.
local function deadline_ahead(sid)
  local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
  return deadline > now and deadline
end

-- Up to so many sids of due sessions, the earliest deadline first.
local function due_sids(count_max)
  return redis.call("ZRANGE", expire, "-inf", digits(now), "BYSCORE", "LIMIT", 0, count_max)
end

-- The time of a write. It is now. Where the clock has stepped back, it is the time that is stored already.

-- A stored time that is ahead of now, else now. At most a day ahead: no fast clock is believed further.
local function steady_time(stored)
  return math.max(now, math.min(tonumber(stored or 0), now + DAY))
end

-- The same, for the newest entry of a list.
local function steady_time_of(list)
  return steady_time(redis.call("ZRANGE", list, -1, -1, "WITHSCORES")[2])
end

-- Whether the caller made its record at that time, give or take a second. It is sealed: no script can change it.
local function is_made_at(at, expected)
  return math.abs(expected - at) <= 1000
end

-- Removing sessions from every key.

-- The sessions that this script has ended, as with_ended returns them.
local ended = {}

-- The reply of every script that may end sessions: its own result, its time, and what has ended. That is for each
-- reason: the reason; how many; and one text with sid (20 bytes), length of the user id (1 byte) and user id of each.
-- With a user, login time and last seen follow (6 bytes each). The text is empty if it was not asked for.
local function with_ended(result)
  return { result, digits(now), unpack(ended) }
end

-- How long a note stays. Ends for other reasons are the user's own doing, and leave a note only if there is a message.
local note_lifetimes = { kicked = DAY, replaced = HOUR, expired = HOUR, evicted = HOUR }

-- Sort sids by what must be taken out for them, until their records have too many bytes. Returns how many were sorted,
-- how many bytes that were, and the lists: sids with a user first, then those of unknown records.
local function sort_out(sids, named)
  local views, user_lists, members, of_guests, unknown, names, there = {}, {}, {}, {}, {}, {}, 0
  local count, size, batch = 0, 0, 1
  local seen = named and redis.call("ZMSCORE", recent, unpack(sids))
  -- Each batch has twice as many records as the one before, unless so many of their size would be too much.
  while batch >= 1 and count < #sids do
    local records = redis.call("HMGET", login, unpack(sids, count + 1, math.min(count + batch, #sids)))
    for _, record in ipairs(records) do
      size = size + (record and #record or 0)
      if size > BYTES_MAX and count > 0 then break end
      count = count + 1
      local sid = sids[count]
      local user_id_length = record and is_readable(record) and string.byte(record, length_at)
      views[count] = viewed_by .. sid
      if not user_id_length then
        unknown[#unknown + 1] = sid
      elseif user_id_length > 0 then
        user_lists[#user_lists + 1] = online_user_of .. string.sub(record, length_at + 1, length_at + user_id_length)
        members[#user_lists] = sid
      else
        of_guests[#of_guests + 1] = sid
      end
      there = there + (record and 1 or 0)
      if record and named and #sid == 20 then
        names[#names + 1] = sid
        if (user_id_length or 0) > 0 then
          names[#names + 1] = string.sub(record, length_at, length_at + user_id_length + 6)
          names[#names + 1] = struct.pack(">I6", tonumber(seen[count] or 0))
        else
          names[#names + 1] = "\0"
        end
      end
    end
    batch = math.min(2 * batch, 16, math.floor((BYTES_MAX - size) * count / math.max(size, 1)))
  end
  local guests_there = #of_guests
  -- A session whose record can't be read may be in any list.
  for _, sid in ipairs(unknown) do
    members[#members + 1], of_guests[#of_guests + 1] = sid, sid
  end
  return count, math.min(size, BYTES_MAX), {
    views = views, user_lists = user_lists, members = members, of_guests = of_guests, names = names, there = there,
    guests_there = guests_there, unknown = #unknown,
  }
end

-- Delete the first `count` sids from every key, but for the lists of users. They are the first of the list `order`, if
-- that is given.
local function delete_sids(sids, count, sorted, order)
  redis.call("DEL", unpack(sorted.views))
  redis.call("HDEL", login, unpack(sids, 1, count))
  local members = sorted.members
  local of_guests = sorted.of_guests
  local listed = { [expire] = sids, [recent] = members, [guests] = of_guests, [online_user] = members }
  for name, some in pairs(listed) do
    if name == order then
      redis.call("ZREMRANGEBYRANK", name, 0, count - 1)
    elseif #some > 0 then
      redis.call("ZREM", name, unpack(some, 1, math.min(count, #some)))
    end
  end
end

-- Remove sessions from every key: up to AT_ONCE_MAX, or as many as have BYTES_MAX of records together. Returns how many
-- of the sids were dealt with, how many bytes their records had, and how many had no record that names a user: if such a
-- session was in the list of a user, it is still there.
-- Without a reason, the sessions have not ended: they live on in another store. `order` is a list whose first entries are
-- these sids. `quiet` leaves the sids out of the reply. `message` is for the users to read.
local function remove_sessions(sids, reason, order, quiet, message)
  if #sids == 0 then return 0, 0, 0 end
  local count, size, sorted = sort_out(sids, reason and not quiet)
  delete_sids(sids, count, sorted, order)
  message = message or ""
  local lifetime = reason and (note_lifetimes[reason] or message ~= "" and DAY)
  local note = lifetime and reason .. " " .. digits(now) .. " " .. message
  for index, name in ipairs(sorted.user_lists) do
    redis.call("ZREM", name, sorted.members[index])
    -- pcall: the session has ended, even if a full server refuses the note.
    if note then redis.pcall("SET", ended_of .. sorted.members[index], note, "PX", lifetime) end
  end
  if reason and sorted.there > 0 then
    for _, part in ipairs({ reason, sorted.there, table.concat(sorted.names) }) do table.insert(ended, part) end
    -- pcall: they have ended, even if a full server refuses to count.
    redis.pcall("HINCRBY", totals, reason, sorted.there)
    if sorted.guests_there > 0 then redis.pcall("HINCRBY", totals, "guests:" .. reason, sorted.guests_there) end
  end
  return count, size, sorted.unknown
end
