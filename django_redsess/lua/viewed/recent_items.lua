-- Read what a live session viewed, the newest first.
-- ARGV: sid limit
-- At most `limit` items; 0 stands for all.
-- Reply: item, time, item, time, …
-- needs: partition, deadlines
return deadline_ahead(sid) and redis.call("ZRANGE", viewed_by .. sid, 0, limit - 1, "REV", "WITHSCORES") or {}
