-- Stands behind remove.lua: how many sessions a user may have.

-- Which sessions must go, so that a user has no more than `limit` (nil: any number) with the one that signs in.
-- Returns up to 250 sids, how many it ought to be, and the reason; or nil where the one that signs in must go.
-- A due session does not count, nor does the sid that the session leaves. Only the 1 000 that signed in first are
-- looked at. Where all of these are due, they go.
local function in_the_way(user_id, sid, leaves, limit, policy)
  if not limit then return {}, 0 end
  local list = online_user_of .. user_id
  local others = redis.call("ZCARD", list)
  for _, own in ipairs({ sid, leaves }) do
    if redis.call("ZSCORE", list, own) then others = others - 1 end
  end
  if others < limit then return {}, 0 end

  local sids, there, due_too, place, seen = redis.call("ZRANGE", list, 0, 999), {}, {}, {}, {}
  local deadlines = redis.call("ZMSCORE", expire, unpack(sids))
  for index, other in ipairs(sids) do
    place[other] = index
    if other ~= sid and other ~= leaves then
      local is_due = tonumber(deadlines[index] or 0) <= now
      table.insert(is_due and due_too or there, other)
    end
  end
  local excess = others - #due_too + 1 - limit
  if excess < 1 then return {}, 0 end
  if policy == "refuse" then return nil end

  if #there == 0 then return { unpack(due_too, 1, 250) }, math.huge, "expired" end
  if policy == "end_least_recent" then
    for index, at in ipairs(redis.call("ZMSCORE", recent, unpack(there))) do seen[there[index]] = tonumber(at or 0) end
    -- Of those that were last seen at the same time, the one goes that was signed in first.
    table.sort(there, function(one, other)
      return seen[one] < seen[other] or seen[one] == seen[other] and place[one] < place[other]
    end)
  end
  return { unpack(there, 1, math.min(excess, #there, 250)) }, excess, "replaced"
end

-- End those. Returns "crowded" if that was not all.
local function make_room(sids, excess, reason)
  return remove(sids, reason) < excess and "crowded" or ""
end
