-- Count sessions, after taking out up to 200 that are due.
-- KEYS: see listing.lua. ARGV: "users" if they are lists of users, "listed" to count of these what pages can show; how
-- many milliseconds ago they were seen at most, or "". Reply: how many, and the time, see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include listing.lua
-- include latest.lua
local since = since_from(ARGV[2])

remove(due(200), "expired")
local count, at = 0, now
if since == "" and ARGV[1] ~= "listed" then
  for index = 11, #KEYS do count = count + redis.call("ZCARD", KEYS[index]) end
elseif ARGV[1] ~= "" then
  count = #of_users(false, since)
else
  for index = 11, #KEYS do count = count + redis.call("ZCOUNT", KEYS[index], since, "+inf") end
end
for index = 11, #KEYS do at = math.max(at, now_or_latest(KEYS[index])) end
return with_ended({ count, text(at) })
