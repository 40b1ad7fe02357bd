-- What lists show of sessions.
-- needs: partition, seen

-- A row: sid, login time, last seen, deadline, newest viewed item, record. Nothing (nil) without a record or without a
-- deadline: then it is no session, whatever the server has evicted.
local function row_of(sid, record)
  local deadline = record and redis.call("ZSCORE", expire, sid)
  if not deadline then return nil end
  local login_time = redis.call("ZSCORE", online_user, sid) or ""
  local seen_at = last_seen(sid) or login_time
  return { sid, login_time, seen_at, deadline, redis.call("ZRANGE", viewed_by .. sid, -1, -1)[1] or "", record }
end

-- The rows of sids, until their records have too many bytes; and how many sids were read.
local function rows_of(sids)
  local rows, size, count = {}, 0, 0
  while count < #sids and size <= BYTES_MAX do
    count = count + 1
    local sid = sids[count]
    local record = redis.call("HGET", login, sid)
    size = size + (record and #record or 0)
    rows[#rows + 1] = row_of(sid, record)
  end
  return rows, count
end
