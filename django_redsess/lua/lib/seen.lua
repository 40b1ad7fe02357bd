-- When sessions were last seen.
-- needs: partition

-- The list that says when sessions of this user were last seen. A user id of "" stands for guests.
local function seen_list_of(user_id)
  return user_id == "" and guests or recent
end

-- When a session was last seen, with a user or without; or false.
local function last_seen(sid)
  return redis.call("ZSCORE", recent, sid) or redis.call("ZSCORE", guests, sid)
end
