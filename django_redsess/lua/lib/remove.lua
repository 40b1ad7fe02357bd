-- The only way out: sessions are taken out of every key.
-- needs: partition, clock, record_header

-- What has ended in this script, for with_ended: for each reason, the reason, how many, and whom.
local ended = {}

-- The reply of every script that may end sessions: its own result, its time, and what has ended. That is for each
-- reason: the reason; how many; and one text with sid (20 bytes), length of the user id (1 byte) and user id of each.
-- The text is empty where nobody asked for it.
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
        local owner = user_id_length and string.sub(record, length_at, length_at + user_id_length) or "\0"
        names[#names + 1] = sid .. owner
      end
    end
    batch = math.min(2 * batch, 16, math.floor((BYTES_MAX - size) * count / math.max(size, 1)))
  end
  local guests_there = #of_guests
  -- Whose record can't be read may be in any list.
  for _, sid in ipairs(unknown) do
    members[#members + 1], of_guests[#of_guests + 1] = sid, sid
  end
  return count, math.min(size, BYTES_MAX), {
    views = views, user_lists = user_lists, members = members, of_guests = of_guests, names = names, there = there,
    guests_there = guests_there,
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
  -- Another process may write the index of addresses, even if this one does not.
  listed[addresses], listed[guests_addresses] = members, of_guests
  for name, some in pairs(listed) do
    if name == order then
      redis.call("ZREMRANGEBYRANK", name, 0, count - 1)
    elseif #some > 0 then
      redis.call("ZREM", name, unpack(some, 1, math.min(count, #some)))
    end
  end
end

-- Take sessions out of every key: up to AT_ONCE_MAX, or as many as have BYTES_MAX of records together. Returns how many
-- of the sids were dealt with, and how many bytes their records had.
-- Without a reason, the sessions live on elsewhere and have not ended. `order` is a list whose first entries are these
-- sids. `quiet` leaves out whom it ended. `message` is for the users to read.
local function remove(sids, reason, order, quiet, message)
  if #sids == 0 then return 0, 0 end
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
  return count, size
end
