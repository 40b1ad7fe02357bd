-- Sessions that are too many. Guests' end first, to make room for those with a user.
-- needs: partition, remove

-- How many guests' sessions are too many, and how many with a user. `maximum` may have a user. Guests may have what
-- these leave of it, but `reserve` at least and `guests_maximum` at most. capacity.Allowed has the same rule.
local function too_many(maximum, reserve, guests_maximum)
  local with_user = redis.call("ZCARD", recent)
  local allowed = math.min(math.max(maximum - with_user, reserve), guests_maximum)
  return math.max(0, redis.call("ZCARD", guests) - allowed), math.max(0, with_user - maximum)
end

-- End up to `limit` sessions that are too many, the longest unseen first. Returns how many are still too many.
local function evict(maximum, reserve, guests_maximum, limit, quiet)
  local of_guests, with_user = too_many(maximum, reserve, guests_maximum)
  local left = of_guests + with_user
  for _, each in ipairs({ { guests, of_guests }, { recent, with_user } }) do
    local list, count = each[1], math.min(each[2], limit)
    local taken = count > 0 and remove(redis.call("ZRANGE", list, 0, count - 1), "evicted", list, quiet) or 0
    left, limit = left - taken, limit - taken
  end
  return left
end
