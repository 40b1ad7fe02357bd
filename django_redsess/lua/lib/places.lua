-- The index of addresses. The place of a session is the number by which its address is ordered.
-- needs: partition

-- The list of places of sessions with this user. A user id of "" stands for guests.
local function places_of(user_id)
  return user_id == "" and guests_addresses or addresses
end

-- Write the place of a session. "" leaves the index as it is, "none" takes the session out of it.
local function set_place(sid, user_id, place)
  if place == "none" then
    redis.call("ZREM", places_of(user_id), sid)
  elseif place ~= "" then
    redis.call("ZADD", places_of(user_id), place, sid)
  end
end
