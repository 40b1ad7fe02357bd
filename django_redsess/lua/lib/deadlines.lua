-- When sessions are due.
-- needs: partition, clock

-- The earliest deadline of all, or nil.
local function first_deadline()
  return tonumber(redis.call("ZRANGE", expire, 0, 0, "WITHSCORES")[2])
end

-- The deadline of a session, if it is still ahead; or false.
local function deadline_ahead(sid)
  local deadline = tonumber(redis.call("ZSCORE", expire, sid) or 0)
  return deadline > now and deadline
end

-- Up to so many sids of due sessions, the earliest deadline first.
local function due_sids(count_max)
  return redis.call("ZRANGE", expire, "-inf", digits(now), "BYSCORE", "LIMIT", 0, count_max)
end
