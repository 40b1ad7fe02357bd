-- Thin out samples, so that each slot of time has one. Slots begin at the same times in all partitions. The script's
-- KEYS have `samples`.
-- needs: partition, clock

-- Group samples with their scores, the earliest first, by slots of `length` milliseconds.
local function slots_of(found, length)
  local slots, slot = {}, nil
  for index = 1, #found, 2 do
    local at = tonumber(found[index + 1])
    if not slot or at - at % length ~= slot.begins then
      slot = { begins = at - at % length, first = at }
      slots[#slots + 1] = slot
    end
    slot[#slot + 1] = found[index]
  end
  return slots
end

-- Replace the samples of a slot by one: its time is the slot's beginning, its counts are the highest, its totals those
-- of the latest. Return whether the server took it.
local function merge(slot)
  local signed_in, guests_there, latest = 0, 0, nil
  for _, sample in ipairs(slot) do
    local users, others, rest = string.match(sample, "^%d+ (%d+) (%d+) ([%d ]+)$")
    -- Another program may have written anything: what is no sample goes.
    if rest then
      latest = rest
      signed_in, guests_there = math.max(signed_in, tonumber(users)), math.max(guests_there, tonumber(others))
    end
  end
  local merged = latest and table.concat({ digits(slot.begins), digits(signed_in), digits(guests_there), latest }, " ")
  -- pcall: a full server refuses it. Then the samples stay as they are.
  if merged and type(redis.pcall("ZADD", samples, digits(slot.begins), merged)) == "table" then return false end
  for _, sample in ipairs(slot) do
    if sample ~= merged then redis.call("ZREM", samples, sample) end
  end
  return true
end

-- Keep one sample for each slot of `length` milliseconds that is older than `age`. Look at up to AT_ONCE_MAX samples:
-- the next call goes on behind them.
local function thin_out(age, length)
  local before, field = now - age, "thinned:" .. digits(length)
  before = before - before % length
  local from = tonumber(redis.call("HGET", totals, field) or 0) or 0
  if from == before then return end
  -- The clock has stepped back: begin again.
  if from > before then from = 0 end
  local found = redis.call("ZRANGE", samples, digits(from), "(" .. digits(before), "BYSCORE", "LIMIT", 0, AT_ONCE_MAX,
    "WITHSCORES")
  local slots = slots_of(found, length)
  if #found == 2 * AT_ONCE_MAX then
    -- The last slot may have more samples than were read.
    before = slots[#slots].begins
    if slots[2] then slots[#slots] = nil end
  end
  for _, slot in ipairs(slots) do
    if (slot[2] or slot.first ~= slot.begins) and not merge(slot) then return end
  end
  redis.pcall("HSET", totals, field, digits(before))
end
