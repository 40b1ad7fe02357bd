-- Sessions that come from another engine: see contrib/moving.
-- Other names: KEYS and ARGV of a script are locals of it. digits, is_made_at, now, seen_list_of, steady_time_of, time
-- and with_ended are in common.lua, add_session and note_of in session.lua, is_blocked in blocks.lua.

-- What was ended there as of a time: a list of these times in milliseconds, each with what stays, as in `end_before`.
local function ends_before(name)
  -- pcall, twice: another program may have stored anything there.
  local text, ends = redis.pcall("GET", name), {}
  local done, found = pcall(cjson.decode, type(text) == "string" and text or "[]")
  for _, each in ipairs(done and type(found) == "table" and found or {}) do
    if type(each) == "table" and type(each[1]) == "number" then ends[#ends + 1] = each end
  end
  return ends
end

-- The most entries of such a list.
local ends_max = 50

-- Whether what began at that time, and goes by one of these names, was ended since.
local function is_over(ends, began_at, names)
  for _, each in ipairs(ends) do
    local stays = began_at > each[1]
    for index = 2, #each do stays = stays or each[index] == names[1] or each[index] == names[2] end
    if not stays then return true end
  end
  return false
end

--- copy: Add a session that comes from another store, unless it has been here before, or was ended there.
-- KEYS: partition moved over over_all
-- ARGV: sid record user_id login_time at seen due:number mark mark_lifetime began_at:number sid_there
-- The record was made `at` that time, and the session was last `seen` at that one. `moved` is the mark of the session
-- in this store: it becomes `mark`, and stays for so many milliseconds, also when the session ends. `over` and
-- `over_all` have what was ended there, of this user and of all: as in `end_before`. The session began there at
-- `began_at`, with the sid `sid_there`: what was ended there later is over.
-- The session of a user who is blocked is marked as ended, so that it does not come when the block is over.
-- Reply: "copied", "there" if the session is here, "ended" if it has been here or its user is blocked, "over" if it was
-- ended there; or "clock" and the time by which the record must be made. See with_ended.
-- The client repeats a command whose reply was lost: then its record is there already.
if redis.call("HEXISTS", login, sid) == 1 then return with_ended({ "there" }) end
if redis.call("EXISTS", moved) == 1 or note_of(sid) ~= "" then return with_ended({ "ended" }) end
local names = { "session " .. sid_there, "user " .. user_id }
if is_over(ends_before(over), began_at, names) or is_over(ends_before(over_all), began_at, names) then
  return with_ended({ "over" })
end
if is_blocked(user_id) then
  redis.call("SET", moved, "here", "PX", mark_lifetime)
  return with_ended({ "ended" })
end
local expected = steady_time_of(seen_list_of(user_id))
if not is_made_at(at, expected) then return with_ended({ "clock", digits(expected) }) end
add_session(sid, record, user_id, login_time, seen, due)
redis.call("SET", moved, mark, "PX", mark_lifetime)
-- pcall: the session is there, even if a full server refuses this.
if redis.pcall("HINCRBY", totals, "moved", 1) == 1 then redis.pcall("HSET", totals, "moved_since", time[1]) end
return with_ended({ "copied" })

--- end_before: Note that sessions of the other store are over that began before now, or before a time.
-- KEYS: over
-- ARGV: before:number lifetime kept...
-- `kept` has what stays: "session " and a sid there, or "user " and a user id. The note stays for so many milliseconds
-- from now on. It has one entry for each end, the latest first, but of the earlier ones only those that say more.
-- Reply: the time, as text.
before = before or now
local ends = { { before, unpack(kept) } }
for _, each in ipairs(ends_before(over)) do
  -- With nothing kept, the new entry has all that an earlier one says.
  local says_more = each[1] > before or (#kept > 0 and (each[1] < before or #each ~= #kept + 1))
  -- Beyond that, what stayed is over, too.
  if says_more and #ends < ends_max then ends[#ends + 1] = #ends < ends_max - 1 and each or { each[1] } end
end
redis.call("SET", over, cjson.encode(ends), "PX", lifetime)
return digits(before)
