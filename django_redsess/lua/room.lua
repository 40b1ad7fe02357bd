-- Stands behind remove.lua: how many sessions a user may have.

-- What must go so that a user has no more than `limit` sessions with the one that signs in: sids, and how many those
-- ought to be, for it names 250 at most; or nothing (nil) where it is that one that must go. Who is due does not count,
-- nor does the sid that the session leaves. Of a list of more than 1 000 it judges by the earliest sign-ins.
local function in_the_way(user_id, sid, leaves, limit, policy)
  local list = online_user_of .. user_id
  local others = redis.call("ZCARD", list)
  for _, own in ipairs({ sid, leaves }) do
    if redis.call("ZSCORE", list, own) then others = others - 1 end
  end
  if others < limit then return {}, 0 end

  local sids, there = redis.call("ZRANGE", list, 0, 999), {}
  local deadlines = redis.call("ZMSCORE", expire, unpack(sids))
  for index, other in ipairs(sids) do
    local is_due = tonumber(deadlines[index] or 0) <= now
    if other ~= sid and other ~= leaves then
      if is_due then others = others - 1 else there[#there + 1] = other end
    end
  end
  local excess = others + 1 - limit
  if excess < 1 then return {}, 0 end
  if policy == "refuse" then return nil end

  if policy == "end_least_recent" and #there > 0 then
    local seen = {}
    for index, at in ipairs(redis.call("ZMSCORE", recent, unpack(there))) do seen[there[index]] = tonumber(at or 0) end
    table.sort(there, function(one, other) return seen[one] < seen[other] end)
  end
  return { unpack(there, 1, math.min(excess, #there, 250)) }, excess
end

-- End those. Returns "crowded" if that was not all.
local function replace(sids, excess)
  return remove(sids, "replaced") < excess and "crowded" or ""
end
