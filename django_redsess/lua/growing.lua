-- Sessions that come from another store of this engine. See growing.

-- The revision of a record that has been copied, and is still in the other store, too.
local revision_of_copies = "copied"

-- The mark of a session, under this name; "" if it has none.
local function mark_of(name)
  -- pcall: another program may have stored anything there.
  local mark = redis.pcall("GET", name)
  return type(mark) == "string" and mark or ""
end

--- receive: Copy a session of another store here, unless it is here, or has been.
-- KEYS: partition moved
-- ARGV: sid record user_id login_time seen due:number place revision outdated mark_lifetime viewed...
-- The record is that of the other store, with the revision of copies in place of its own, which is `revision`. `moved` is
-- the mark of the session: while it comes, the revision that was copied; then "here", for so many milliseconds, also when
-- the session ends. What was copied as the revision `outdated` is replaced: it has been saved there since. The rest is as
-- in `create`.
-- Reply: "copied", "here" if it is or has been here, or the revision that another process has copied. See with_ended.
local found, mark = redis.call("HGET", login, sid), mark_of(moved)
if found and revision_of(found) ~= revision_of_copies or mark == "here" then return with_ended({ "here" }) end
if found and #mark == #revision and mark ~= revision and mark ~= outdated then return with_ended({ mark }) end
if found then end_sessions({ sid }) end
add_session(sid, record, user_id, login_time, seen, due, place)
redis.call("SET", moved, revision, "PX", mark_lifetime)
for index = 1, #viewed, 2 do
  redis.call("ZADD", viewed_by .. sid, viewed[index + 1], viewed[index])
end
return with_ended({ "copied" })

--- depart: Take a session out that has been copied to another store, if it is as it was copied.
-- KEYS: partition moved
-- ARGV: sid revision mark_lifetime
-- Reply: "departed", also if another process has done it; "changed"; or "gone". See with_ended.
local found = redis.call("HGET", login, sid)
if not found then return with_ended({ mark_of(moved) == "departed" and "departed" or "gone" }) end
if revision_of(found) ~= revision then return with_ended({ "changed" }) end
end_sessions({ sid })
redis.call("SET", moved, "departed", "PX", mark_lifetime)
return with_ended({ "departed" })

--- arrive: End the move of a session that was copied: it lives here from now on, or was ended where it came from.
-- KEYS: partition moved
-- ARGV: sid lives:flag mark_lifetime
-- Reply: "arrived", or "gone" if it was not copied. See with_ended.
local found, revision = redis.call("HGET", login, sid), mark_of(moved)
if not found or revision_of(found) ~= revision_of_copies then return with_ended({ "gone" }) end
-- A mark may have been lost. Then the record gets any revision: nobody has loaded it.
local is_marked = #revision == #revision_of_copies
if lives then
  if not is_marked then revision = string.sub(digits(now), -#revision_of_copies) end
  redis.call("HSET", login, sid, string.sub(found, 1, 1) .. revision .. string.sub(found, #revision_of_copies + 2))
  -- pcall: the session is there, even if a full server refuses to count.
  if redis.pcall("HINCRBY", totals, "moved", 1) == 1 then redis.pcall("HSET", totals, "moved_since", time[1]) end
else
  end_sessions({ sid })
end
if is_marked then
  redis.call("SET", moved, "here", "KEEPTTL")
else
  redis.call("SET", moved, "here", "PX", mark_lifetime)
end
return with_ended({ "arrived" })
