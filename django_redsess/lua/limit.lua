-- End sessions of a user above a limit: the rest, where a sign-in has found too many for one script.
-- KEYS: see partition.lua. ARGV: user id, sid that signed in, limit, policy. Reply: "crowded" if that was not all, or
-- ""; see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include room.lua
local user_id, sid, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
-- It may have had to go for a later one: no room is kept for it then.
if not redis.call("ZSCORE", online_user_of .. user_id, sid) then limit = limit + 1 end
local goes, too_many, why = in_the_way(user_id, sid, nil, limit, ARGV[4])
return with_ended(goes and make_room(goes, too_many, why) or "")
