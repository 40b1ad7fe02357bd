-- Compare some sessions with their entries in the index of addresses, and mend what disagrees if told to. Only the site
-- can read addresses.
-- ARGV: mend:flag read...
-- `read` are up to AT_ONCE_MAX sessions: sid, revision, place, sid, … A place of "none" says that there is no address.
-- A session whose record has changed since is left out.
-- Reply: three texts for each fault: its kind, sid, key.
-- needs: partition, record_header, revision, places, faults
local function check_place(sid, user_id, place)
  local list, kind = places_of(user_id), nil
  local found = redis.call("ZSCORE", list, sid)
  if place == "none" then
    kind = found and "stray"
  elseif not found then
    kind = "missing"
  elseif tonumber(found) ~= tonumber(place) then
    kind = "misplaced"
  end
  if kind and fault(mend, kind, sid, list) then set_place(sid, user_id, place) end
end

for index = 1, #read, 3 do
  local sid = read[index]
  local record = redis.call("HGET", login, sid)
  -- Without a deadline, it is no session.
  if record and revision_of(record) == read[index + 1] and redis.call("ZSCORE", expire, sid) then
    check_place(sid, user_of(record), read[index + 2])
  end
end
return faults
