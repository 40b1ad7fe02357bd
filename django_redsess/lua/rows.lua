-- Stands behind partition.lua: what lists show.

-- What a list shows of a session: sid, login time, last seen, deadline, newest viewed item, record. Nothing (nil) where
-- it has no record or no deadline: then it is none, whatever the server has thrown away.
local function row_of(sid, record)
  local deadline = record and redis.call("ZSCORE", expire, sid)
  if not deadline then return nil end
  local login_time = redis.call("ZSCORE", online_user, sid) or ""
  local seen = last_seen(sid) or login_time
  return { sid, login_time, seen, deadline, redis.call("ZRANGE", viewed_by .. sid, -1, -1)[1] or "", record }
end

-- The rows of sids from one place of a list on, but no more than a megabyte of records, and how many sids those are.
local function rows_of(sids, from)
  local rows, size, count = {}, 0, 0
  while from + count <= #sids and size <= 1048576 do
    local sid = sids[from + count]
    local record = redis.call("HGET", login, sid)
    size = size + (record and #record or 0)
    rows[#rows + 1] = row_of(sid, record)
    count = count + 1
  end
  return rows, count
end
