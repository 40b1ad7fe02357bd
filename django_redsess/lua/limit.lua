-- End sessions of a user above a limit: the rest, where a sign-in has found too many for one script.
-- KEYS: see partition.lua. ARGV: user id, sid that stays, limit, policy. Reply: "crowded" if that was not all, or "";
-- see with_ended.
-- include partition.lua
-- include remove.lua
-- include room.lua
local goes, too_many, why = in_the_way(ARGV[1], ARGV[2], nil, tonumber(ARGV[3]), ARGV[4])
return with_ended(goes and make_room(goes, too_many, why) or "")
