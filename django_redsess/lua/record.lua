-- Stands behind user.lua: whether a session lives, what is in its record, and why it is gone.

-- The deadline of a session, if it is still ahead; or false.
local function in_time(sid)
  local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
  return deadline > now and deadline
end

-- The record of a session that is there and not due, and its deadline; or false.
local function live_record(sid)
  local deadline = in_time(sid)
  return deadline and redis.call("HGET", login, sid), deadline
end

-- The note of why a session is gone: "rotated" and its new sid; or the reason of its end, when it ended, and what its
-- user is to read; or "" where there is none.
local function note_of(sid)
  -- pcall: somebody may have put anything there.
  local note = redis.pcall("GET", ended_of .. sid)
  return type(note) == "string" and note or ""
end

-- Whether a record may be one of this user. One that can't be read may be anybody's.
local function may_be_of(record, user_id)
  return record and (not is_readable(record) or user_id ~= "" and user_of(record) == user_id)
end

-- The revision of a record. It is new with each write: two records are the same exactly if their revisions are.
local function revision_of(record)
  return string.sub(record, 2, 7)
end

-- When a record was written, or up to a second before that. Where the deadline was set as a date, it is about that.
local function written_at(record)
  if #record < length_at then return 0 end
  local deadline, age = struct.unpack(">I5I4", record, 8)
  return (deadline - age - 1) * 1000
end
