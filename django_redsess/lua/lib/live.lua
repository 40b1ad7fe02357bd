-- Whether a session lives.
-- needs: partition, deadlines

-- The record of a session that is there and not due, and its deadline; or false.
local function live_record(sid)
  local deadline = deadline_ahead(sid)
  return deadline and redis.call("HGET", login, sid), deadline
end
