-- Move the deadline of a session, if it is still the one that was read, and still ahead.
-- KEYS: expire recent guests. ARGV: sid, deadline that was read, new deadline. Reply: 1 if it has moved, else 0.
local due, sid, new = tonumber(redis.call("ZSCORE", KEYS[1], ARGV[1]) or 0), ARGV[1], tonumber(ARGV[3])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if due ~= tonumber(ARGV[2]) or due <= now then return 0 end
if new < due then
  -- A session that was seen ahead of now: the clock has stepped back. By that, no deadline may move earlier; the second
  -- is for the caller's time, which is no better.
  local seen = redis.call("ZSCORE", KEYS[2], sid) or redis.call("ZSCORE", KEYS[3], sid)
  local ahead = tonumber(seen or 0) - now
  if ahead > 0 then new = math.min(due, new + ahead + 1000) end
end
-- pcall: a server that is full refuses this write, and the session can be read all the same.
local moved = new ~= due and redis.pcall("ZADD", KEYS[1], "XX", "CH", string.format("%.0f", new), sid)
return moved == 1 and 1 or 0
