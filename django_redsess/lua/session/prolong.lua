-- Move the deadline of a session, if it is still the one that was read, and still ahead.
-- KEYS: expire recent guests
-- ARGV: sid read:number due:number
-- `read` is the deadline that was read, `due` the new one.
-- Reply: 1 if it has moved, else 0.
-- needs: clock
local before = tonumber(redis.call("ZSCORE", expire, sid) or 0)
if before ~= read or before <= now then return 0 end
if due < before then
  -- Last seen is ahead of now: the clock has stepped back. That must not move a deadline earlier. The second is for the
  -- caller's time, which is no more exact.
  local seen_at = redis.call("ZSCORE", recent, sid) or redis.call("ZSCORE", guests, sid)
  local ahead = tonumber(seen_at or 0) - now
  if ahead > 0 then due = math.min(before, due + ahead + 1000) end
end
-- pcall: a full server refuses this, and the session can be read all the same.
local moved = due ~= before and redis.pcall("ZADD", expire, "XX", "CH", digits(due), sid)
return moved == 1 and 1 or 0
