-- End sessions of a user above a limit: the rest, if a sign-in has found too many for one script.
-- ARGV: user_id sid limit:number policy
-- `sid` is the session that signed in. It stays.
-- Reply: "crowded" if that was not all, else "". See with_ended.
-- needs: partition, user_limit, remove
-- It may have been ended by a later sign-in: then no room is kept for it.
if not redis.call("ZSCORE", online_user_of .. user_id, sid) then limit = limit + 1 end
local leaving, excess, reason = above_limit(user_id, sid, nil, limit, policy)
return with_ended(leaving and end_excess(leaving, excess, reason) or "")
