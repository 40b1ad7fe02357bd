-- Count sessions, after taking out up to DUE_MAX that are due.
-- KEYS: lists...
-- ARGV: kind active
-- `kind` is "" for the lists of a partition, "users" for those of users, "listed" to count of these what pages can
-- show. Only sessions count that were seen at most `active` milliseconds ago; "" counts all.
-- Reply: how many; and the time, or that of the newest entry if it is ahead. See with_ended.
-- needs: clock, deadlines, remove, steady_clock, active, user_lists
local since = active_since(active)

remove(due_sids(DUE_MAX), "expired")
local count, at = 0, now
if since == "" and kind ~= "listed" then
  for _, list in ipairs(lists) do count = count + redis.call("ZCARD", list) end
elseif kind ~= "" then
  count = #of_users(false, since)
else
  for _, list in ipairs(lists) do count = count + redis.call("ZCOUNT", list, since, "+inf") end
end
for _, list in ipairs(lists) do at = math.max(at, steady_time_of(list)) end
return with_ended({ count, digits(at) })
