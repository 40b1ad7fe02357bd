-- A session under a new sid.
-- needs: relief, entries

-- Add a session to every key. `before` is as in set_deadline, `place` as in set_place.
local function add_session(sid, record, user_id, login_time, at, due, place, before)
  first_write(sid, record)
  set_deadline(sid, due, before)
  enter(sid, user_id, login_time, at, place)
end
