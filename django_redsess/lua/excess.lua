-- Stands behind remove.lua: which sessions are too many. Guests' go first, and make room for those with a user.

-- How many guests' sessions are too many, and how many others. There may be `maximum` others. Guests may have what
-- these leave of it, but `reserve` at least and `guests_maximum` at most. upkeep.Allowed has the same rule.
local function too_many(maximum, reserve, guests_maximum)
  local others = redis.call("ZCARD", recent)
  local allowed = math.min(math.max(maximum - others, reserve), guests_maximum)
  return math.max(0, redis.call("ZCARD", guests) - allowed), math.max(0, others - maximum)
end

-- Take out up to `limit` of those that are too many: guests' first, the longest unseen first. Returns how many are
-- still too many.
local function evict(maximum, reserve, guests_maximum, limit, quiet)
  local of_guests, others = too_many(maximum, reserve, guests_maximum)
  local left = of_guests + others
  for _, each in ipairs({ { guests, of_guests }, { recent, others } }) do
    local list, count = each[1], math.min(each[2], limit)
    local taken = count > 0 and remove(redis.call("ZRANGE", list, 0, count - 1), "evicted", list, quiet) or 0
    left, limit = left - taken, limit - taken
  end
  return left
end
