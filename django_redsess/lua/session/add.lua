-- Add a session under a sid that is certainly new. This is the short way, for most creates; create.lua does the rest.
-- KEYS: login expire totals seen_list online_user? online_user_of? places?
-- ARGV: sid record at due user_id place limit:number full_at:number
-- ONCE: first
-- seen_list is recent and the next two are given if there is a user; else it is guests. The record was made `at` that
-- time. A user id of "" stands for a guest. `place` is that in the index of addresses, whose list is `places`; or "",
-- and then no list is given. With a guest's place, `online_user` and `online_user_of` are given as seen_list, and not
-- used. `limit` and `full_at` are as in above_limit: create.lua must be asked where one of the user's sessions may have
-- to end.
-- Reply: 1. Or nothing is written: 0 if create.lua must be asked, which a repetition is told, too; or as text the time
-- by which the record must be made.
-- needs: clock, steady_clock
if not first then return 0 end
local expected = steady_time_of(seen_list)
if not is_made_at(at, expected) then return digits(expected) end
local own = user_id ~= "" and redis.call("ZCARD", online_user_of .. user_id) or 0
if own > 0 and (limit and own >= limit or full_at and redis.call("ZCARD", seen_list) >= full_at) then return 0 end
-- pcall: a full server refuses it, and create.lua can make room.
if type(redis.pcall("HSET", login, sid, record)) == "table" then return 0 end
redis.call("ZADD", expire, due, sid)
redis.call("ZADD", seen_list, at, sid)
if user_id ~= "" then
  redis.call("ZADD", online_user, at, sid)
  redis.call("ZADD", online_user_of .. user_id, at, sid)
end
if place ~= "" then redis.call("ZADD", places, place, sid) end
redis.call("HINCRBY", totals, "created", 1)
return 1
