-- Move the deadline of a session, if it is still the one that was read, and still ahead.
-- KEYS: expire seen_list
-- ARGV: sid read:number due:number
-- `seen_list` is recent if there is a user, else guests. `read` is the deadline that was read, `due` the new one.
-- Reply: 1 if it has moved, else 0.
-- needs: clock
local before = tonumber(redis.call("ZSCORE", expire, sid) or 0)
if before ~= read or before <= now then return 0 end
if due < before then
  -- Last seen is ahead of now: the clock has stepped back. That must not move a deadline earlier. The second is for the
  -- caller's time, which is no more exact.
  local ahead = tonumber(redis.call("ZSCORE", seen_list, sid) or 0) - now
  if ahead > 0 then due = math.min(before, due + ahead + 1000) end
end
-- pcall: a full server refuses this, and the session can be read all the same.
local moved = due ~= before and redis.pcall("ZADD", expire, "XX", "CH", digits(due), sid)
return moved == 1 and 1 or 0
