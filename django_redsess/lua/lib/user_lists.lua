-- Sessions of some users, whose lists are the script's KEYS `lists`, put in order together.
-- needs: partition, clock

local function count_since(login_time)
  local count = 0
  for _, list in ipairs(lists) do count = count + redis.call("ZCOUNT", list, login_time, "+inf") end
  return count
end

-- The login time since which there are CONSIDERED_MAX sign-ins at most, and not many fewer: found by halving time. The
-- halves are the same each time, so that a page and its count agree.
local function since_of_latest()
  if count_since("-inf") <= CONSIDERED_MAX then return "-inf" end
  local too_early, late_enough = 0, 2 ^ 42
  while late_enough - too_early > 1 do
    local middle = math.floor((too_early + late_enough) / 2)
    local count = count_since(digits(middle))
    if count > CONSIDERED_MAX then too_early = middle else late_enough = middle end
    if count <= CONSIDERED_MAX and count > CONSIDERED_MAX * 0.9 then break end
  end
  return digits(late_enough)
end

-- The sessions of these users: their sids, and the score of each, which is its login time or when it was last seen.
-- Only those seen since then, unless that is "". Only the latest CONSIDERED_MAX sign-ins.
local function of_users(by_seen, since)
  local sids, scores, low = {}, {}, since_of_latest()
  for _, list in ipairs(lists) do
    local flat = redis.call("ZRANGE", list, low, "+inf", "BYSCORE", "WITHSCORES")
    local members = {}
    for at = 1, #flat, 2 do members[#members + 1] = flat[at] end
    local seen = #members > 0 and (by_seen or since ~= "") and redis.call("ZMSCORE", recent, unpack(members))
    for number, sid in ipairs(members) do
      if since == "" or tonumber(seen[number] or 0) >= tonumber(since) then
        sids[#sids + 1] = sid
        scores[sid] = tonumber(by_seen and seen[number] or flat[2 * number])
      end
    end
  end
  return sids, scores
end
