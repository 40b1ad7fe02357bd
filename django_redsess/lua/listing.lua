-- Stands behind partition.lua: which sessions a list is of.
-- KEYS from 11 on: one sorted set of sids that is the list, or two whose scores are of one kind; or the lists of some
-- users, to be looked at together.

local considered_max = 5000

local function count_since(login_time)
  local count = 0
  for index = 11, #KEYS do count = count + redis.call("ZCOUNT", KEYS[index], login_time, "+inf") end
  return count
end

-- Since when at most 5 000 of those sessions were signed in, and not many fewer: found by halving time. It begins with
-- the same halves always, so that a page and its count agree.
local function since_of_latest()
  if count_since("-inf") <= considered_max then return "-inf" end
  local too_many, few = 0, 2 ^ 42
  while few - too_many > 1 do
    local middle = math.floor((too_many + few) / 2)
    local count = count_since(text(middle))
    if count > considered_max then too_many = middle else few = middle end
    if count <= considered_max and count > considered_max * 0.9 then break end
  end
  return text(few)
end

-- The sessions of those users: sids, and of each its login time, or when it was last seen. Only those seen since then,
-- unless that is "". No more than the latest 5 000 sign-ins are looked at.
local function of_users(by_seen, since)
  local sids, scores, low = {}, {}, since_of_latest()
  for index = 11, #KEYS do
    local flat = redis.call("ZRANGE", KEYS[index], low, "+inf", "BYSCORE", "WITHSCORES")
    local his = {}
    for at = 1, #flat, 2 do his[#his + 1] = flat[at] end
    local seen = #his > 0 and (by_seen or since ~= "") and redis.call("ZMSCORE", recent, unpack(his))
    for number, sid in ipairs(his) do
      if since == "" or tonumber(seen[number] or 0) >= tonumber(since) then
        sids[#sids + 1] = sid
        scores[sid] = tonumber(by_seen and seen[number] or flat[2 * number])
      end
    end
  end
  return sids, scores
end

-- When a session must have been seen, if that is so many milliseconds ago; "" where it does not matter.
local function since_from(active)
  return active ~= "" and text(now - active) or ""
end
