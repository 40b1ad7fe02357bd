-- Stands behind user.lua: that a session is seen.

-- How long ago a session was seen: less than nothing by a clock that was stepped back. (Not without bounds, as a time
-- may be that somebody else wrote.)
local function since_seen_of(sid)
  return math.max(-now, now - (redis.call("ZSCORE", recent, sid) or 0))
end

-- Note that a session was seen now, unless it was less than an interval ago.
-- pcall: a server that is full, or a replica, refuses these writes, and still serves the read.
local function note_seen(sid, record, since_seen, interval)
  if since_seen < interval then return end
  redis.pcall("ZADD", recent, "XX", "GT", text(now), sid)
  if user_of(record) ~= "" then redis.pcall("ZADD", online_seen, "XX", "GT", text(now), sid) end
end

-- Whether a session that is seen like that may get another deadline, with these settings: see load.lua.
local function prolongs(how, idle, absolute, sliding)
  return how == "active" and (idle ~= "0" or absolute ~= "0" or sliding == "1")
end
