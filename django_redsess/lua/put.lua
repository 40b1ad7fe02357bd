-- Stands behind record.lua and relief.lua: the way in.

-- Note when a session will be due. `before` is when it was due so far, or under its old sid (nil: it is new).
local function set_deadline(sid, due, before)
  local sooner = not before or due < before
  local first = sooner and first_deadline()
  redis.call("ZADD", expire, text(due), sid)
  -- A cleaner sleeps until the first deadline. It is woken for an earlier one: once, however many come.
  -- pcall: the session is written, whatever becomes of that.
  if sooner and (not first or due < first) and redis.pcall("LLEN", wake) == 0 then
    redis.pcall("LPUSH", wake, "earlier")
  end
end

-- Put a session into the lists of its kind, as seen at that time. A user id of "" is a guest's.
local function enter(sid, user_id, login_time, at)
  redis.call("ZADD", seen_list_of(user_id), "GT", at, sid)
  if user_id == "" then return end
  redis.call("ZADD", online_user, login_time, sid)
  redis.call("ZADD", online_user_of .. user_id, login_time, sid)
end

-- Take a session out of these lists.
local function leave(sid, user_id)
  redis.call("ZREM", seen_list_of(user_id), sid)
  if user_id == "" then return end
  redis.call("ZREM", online_user, sid)
  redis.call("ZREM", online_user_of .. user_id, sid)
end

-- Add a session to every key. `before` is as in set_deadline.
local function put(sid, record, user_id, login_time, at, due, before)
  first_write(sid, record)
  set_deadline(sid, due, before)
  enter(sid, user_id, login_time, at)
end
