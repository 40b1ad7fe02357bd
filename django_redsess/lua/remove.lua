-- Stands behind partition.lua: the way out.

-- What each script replies that may end sessions: its own result and when it ran; then for each reason why it ended
-- some: the reason, how many, and of each its sid (20 bytes), and the user id as its record has it (length, text). Not
-- whom, where it was told to be quiet.
local ended = {}

local function with_ended(result)
  return { result, text(now), unpack(ended) }
end

-- For how long a user can still be told why the session is gone, in milliseconds. Other ends are of the user's own
-- making, unless there are words to read.
local told_for = { kicked = 86400000, replaced = 3600000, expired = 3600000, evicted = 3600000 }
local words_told_for = 86400000

-- Take up to 250 sessions out of every key, but no more at once than a megabyte of records. Without a reason they live
-- on elsewhere, and have not ended; words are for their users to read. They are the first of the list `order`, if that
-- is given. Returns how many of the sids it has dealt with, and how many bytes of records those had.
local function remove(sids, reason, order, quiet, words)
  local views, lists, members, of_guests, unknown, notes, there = {}, {}, {}, {}, {}, {}, 0
  local count, size, at_once = 0, 0, 1
  -- Twice as many records at a time, unless so many, if they are like those before, would be too much.
  while at_once >= 1 and count < #sids do
    local records = redis.call("HMGET", login, unpack(sids, count + 1, math.min(count + at_once, #sids)))
    for _, record in ipairs(records) do
      size = size + (record and #record or 0)
      if size > 1048576 and count > 0 then break end
      count = count + 1
      local sid = sids[count]
      local user_id_length = record and is_readable(record) and string.byte(record, length_at)
      views[count] = viewed_by .. sid
      if not user_id_length then
        unknown[#unknown + 1] = sid
      elseif user_id_length > 0 then
        lists[#lists + 1] = online_user_of .. string.sub(record, length_at + 1, length_at + user_id_length)
        members[#lists] = sid
      else
        of_guests[#of_guests + 1] = sid
      end
      there = there + (record and 1 or 0)
      if record and reason and not quiet and #sid == 20 then
        local owner = user_id_length and string.sub(record, length_at, length_at + user_id_length) or "\0"
        notes[#notes + 1] = sid .. owner
      end
    end
    at_once = math.min(2 * at_once, 16, math.floor((1048576 - size) * count / math.max(size, 1)))
  end
  if count == 0 then return 0, 0 end
  -- While a cluster moves this slot, a key may be elsewhere already: these two fail on that, with nothing written yet.
  if #lists > 0 then redis.call("EXISTS", unpack(lists)) end
  redis.call("DEL", unpack(views))
  redis.call("HDEL", login, unpack(sids, 1, count))
  local there_of_guests = #of_guests
  for _, sid in ipairs(unknown) do
    members[#members + 1], of_guests[#of_guests + 1] = sid, sid
  end
  local listed = { [expire] = sids, [recent] = members, [guests] = of_guests, [online_user] = members }
  for name, some in pairs(listed) do
    if name == order then
      redis.call("ZREMRANGEBYRANK", name, 0, count - 1)
    elseif #some > 0 then
      redis.call("ZREM", name, unpack(some, 1, math.min(count, #some)))
    end
  end
  words = words or ""
  local milliseconds = reason and (told_for[reason] or words ~= "" and words_told_for)
  local note = milliseconds and reason .. " " .. text(now) .. " " .. words
  for index, name in ipairs(lists) do
    redis.call("ZREM", name, members[index])
    -- pcall: it is gone, whatever becomes of the note.
    if note then redis.pcall("SET", ended_of .. members[index], note, "PX", milliseconds) end
  end
  if reason and there > 0 then
    for _, part in ipairs({ reason, there, table.concat(notes) }) do table.insert(ended, part) end
    -- pcall: they are gone, whatever becomes of the count.
    redis.pcall("HINCRBY", totals, reason, there)
    if there_of_guests > 0 then redis.pcall("HINCRBY", totals, "guests:" .. reason, there_of_guests) end
  end
  return count, math.min(size, 1048576)
end

-- Up to limit sessions whose deadline has passed, the earliest first.
local function due(limit)
  return redis.call("ZRANGE", expire, "-inf", text(now), "BYSCORE", "LIMIT", 0, limit)
end
