-- A session's entries in the sorted sets.
-- needs: partition, clock, deadlines, seen, places

-- Write a deadline. `before` is the one so far, or that of the old sid; nil for a new session.
local function set_deadline(sid, due, before)
  local sooner = not before or due < before
  local first = sooner and first_deadline()
  redis.call("ZADD", expire, digits(due), sid)
  -- A cleaner sleeps until the first deadline. An earlier one wakes it: once, however many come.
  -- pcall: the session is written, even if a full server refuses this.
  if sooner and (not first or due < first) and redis.pcall("LLEN", wake) == 0 then
    redis.pcall("LPUSH", wake, "earlier")
  end
end

-- Enter a session into the lists of its kind, as seen at that time. A user id of "" stands for a guest. `place` is as
-- in set_place.
local function enter(sid, user_id, login_time, at, place)
  redis.call("ZADD", seen_list_of(user_id), "GT", at, sid)
  set_place(sid, user_id, place)
  if user_id == "" then return end
  redis.call("ZADD", online_user, login_time, sid)
  redis.call("ZADD", online_user_of .. user_id, login_time, sid)
end

-- Take a session out of these lists.
local function leave(sid, user_id)
  redis.call("ZREM", seen_list_of(user_id), sid)
  redis.call("ZREM", places_of(user_id), sid)
  if user_id == "" then return end
  redis.call("ZREM", online_user, sid)
  redis.call("ZREM", online_user_of .. user_id, sid)
end
