-- Locks: the requests of one session pass one after the other, in the order in which they came.
-- `now`, `digits` and `AT_ONCE_MAX` are of common.lua; `lock`, `waiting` and `alive` are KEYS of the scripts.

-- How long a waiter counts as alive after it has asked, in milliseconds. It asks several times a second.
local ALIVE_MS = 2000

-- Take a request out of the queue.
local function leave_line(token)
  redis.call("ZREM", waiting, token)
  redis.call("ZREM", alive, token)
end

-- For how long the request with this token has the lock at most, in milliseconds: the end of the token. Nil for a token
-- of another program.
local function hold_of(token)
  local hold = tonumber(string.match(token, ":(%d+)$"))
  return hold and math.min(hold, 2 ^ 53)
end

-- Have the lock of `holder` end in time. If the clock stepped back, the lock would last longer by that step. A lock of
-- another program may have no end.
local function bound_life(holder, otherwise)
  local longest, left = hold_of(holder) or otherwise, redis.call("PTTL", lock)
  if left < 0 or left > longest then redis.call("PEXPIRE", lock, digits(longest)) end
end

-- Take out requests that have not asked for a while. If the clock stepped back, they would stay: so times far ahead go,
-- too. A request that was taken out and asks again goes to the end.
local function forget_dead()
  for _, range in ipairs({ { "-inf", digits(now) }, { "(" .. digits(now + ALIVE_MS), "+inf" } }) do
    local dead = redis.call("ZRANGE", alive, range[1], range[2], "BYSCORE", "LIMIT", 0, AT_ONCE_MAX)
    for _, token in ipairs(dead) do leave_line(token) end
  end
end

-- The first request in line, or nil. An entry that is not in `alive` is of another program.
local function first_in_line()
  for _ = 1, AT_ONCE_MAX do
    local first = redis.call("ZRANGE", waiting, 0, 0)[1]
    if not first or redis.call("ZSCORE", alive, first) then return first end
    redis.call("ZREM", waiting, first)
  end
end

-- Put a request at the end of the queue, unless it is in it, and note that it is alive. Returns how many are ahead.
local function wait_in_line(token)
  local number = redis.call("ZSCORE", waiting, token)
  if not number then
    number = digits((redis.call("ZRANGE", waiting, -1, -1, "WITHSCORES")[2] or 0) + 1)
    redis.call("ZADD", waiting, number, token)
  end
  redis.call("ZADD", alive, digits(now + ALIVE_MS), token)
  redis.call("PEXPIRE", waiting, ALIVE_MS)
  redis.call("PEXPIRE", alive, ALIVE_MS)
  return redis.call("ZCOUNT", waiting, "-inf", "(" .. number)
end

--- lock: Take the lock of a session, or a place among those who wait for it.
-- KEYS: login lock waiting alive
-- ARGV: sid token waits:flag anywhere:flag
-- The first in line takes the lock once it is free, for as many milliseconds as its token says. A request that has the
-- lock, as after a lost reply, keeps it. Without `waits`, a request that does not get the lock at once leaves the line. A
-- session that is gone has no lock, unless the other store may have it: `anywhere`.
-- Reply: "locked"; "gone"; or how many are ahead in line.
if not anywhere and redis.call("HEXISTS", login, sid) == 0 then
  leave_line(token)
  return "gone"
end
local holder = redis.call("GET", lock)
if holder == token then return "locked" end
local hold = hold_of(token)
if holder then bound_life(holder, hold) end
forget_dead()
if not holder and (first_in_line() or token) == token then
  redis.call("SET", lock, token, "PX", digits(hold))
  leave_line(token)
  return "locked"
end
if not waits then
  leave_line(token)
  return redis.call("ZCARD", waiting)
end
return wait_in_line(token)

--- unlock: Give the lock of a session back, or leave the line of those who wait for it.
-- KEYS: lock waiting alive
-- ARGV: token
-- The lock may have been lost, and be another's by now.
-- Reply: 1 if the lock was given back, else 0.
leave_line(token)
return redis.call("GET", lock) == token and redis.call("DEL", lock) or 0
