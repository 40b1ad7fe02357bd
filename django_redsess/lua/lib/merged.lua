-- Two sorted sets, read as one. It goes by rank, so it takes the same time at any depth.

-- Whether an entry (member, score) comes before another one.
local function comes_before(one, other, reverse)
  if reverse then one, other = other, one end
  local score, score_of_other = tonumber(one[2]), tonumber(other[2])
  return score < score_of_other or score == score_of_other and one[1] < other[1]
end

-- A list without its lowest `skipped` entries. `reverse` reads it from the highest score down.
local function part_of(name, skipped, reverse)
  local part = { count = redis.call("ZCARD", name) - skipped }
  function part.read(first, last)
    if reverse then
      return redis.call("ZRANGE", name, first, math.min(last, part.count - 1), "REV", "WITHSCORES")
    end
    return redis.call("ZRANGE", name, skipped + first, skipped + last, "WITHSCORES")
  end
  return part
end

-- How many of the first `count` entries of both are in the part `one`: found by halving.
local function how_many_of(one, other, count, reverse)
  local low, high = math.max(0, count - other.count), math.min(count, one.count)
  while low < high do
    local taken = math.floor((low + high) / 2)
    local rest = count - taken - 1
    if comes_before(one.read(taken, taken), other.read(rest, rest), reverse) then low = taken + 1 else high = taken end
  end
  return low
end

-- The entries of both parts from rank `first` to `last`: member, score, member, score, …
local function read_merged(one, other, first, last, reverse)
  local count, entries = last - first + 1, {}
  if first >= one.count + other.count or count < 1 then return entries end
  local of_one = how_many_of(one, other, first, reverse)
  local of_other = first - of_one
  local left = of_one < one.count and one.read(of_one, of_one + count - 1) or {}
  local right = of_other < other.count and other.read(of_other, of_other + count - 1) or {}
  local at_left, at_right = 1, 1
  while #entries < 2 * count and (left[at_left] or right[at_right]) do
    local next_left, next_right = { left[at_left], left[at_left + 1] }, { right[at_right], right[at_right + 1] }
    local takes_left = not next_right[1] or next_left[1] and comes_before(next_left, next_right, reverse)
    local taken = takes_left and next_left or next_right
    entries[#entries + 1], entries[#entries + 2] = taken[1], taken[2]
    if takes_left then at_left = at_left + 2 else at_right = at_right + 2 end
  end
  return entries
end
