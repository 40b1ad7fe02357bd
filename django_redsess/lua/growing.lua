-- Sessions that come from another store of this engine: see contrib/moving/growing.
-- Other names: KEYS and ARGV of a script are locals of it. AT_ONCE_MAX, BYTES_MAX, remove_sessions, revision_of, time,
-- user_of and with_ended are in common.lua, add_session and live_record in session.lua, forget_block, has_old_block and
-- is_blocked in blocks.lua.

-- The revision of a record that has been copied, and is still in the other store, too.
local revision_of_copies = "copied"

-- A copy is named by the revision that was copied, and as many random bytes. A departure says for which copy it was made.
-- So a copy that a slow process makes afterwards, when the session has ended here meanwhile, never becomes a session.

-- How long such a name is.
local length_of_copy = 2 * #revision_of_copies

-- The mark of a session, under this name; "" if it has none.
local function mark_of(name)
  -- pcall: another program may have stored anything there.
  local mark = redis.pcall("GET", name)
  return type(mark) == "string" and mark or ""
end

--- receive: Copy a session of another store here, unless it is here, or has been.
-- KEYS: partition moved
-- ARGV: sid record user_id login_time seen due:number copy outdated mark_lifetime viewed...
-- The record is that of the other store, with the revision of copies in place of its own. `moved` is the mark of the
-- session: while it comes, the name of its copy, which is `copy`; then "here", for so many milliseconds, also when the
-- session ends. The copy `outdated` is replaced: the session has been saved there since. The rest is as in `create`.
-- Reply: the name of the copy that is here now, this one or that of another process; or "here" if the session is or has
-- been here. See with_ended.
local found, mark = redis.call("HGET", login, sid), mark_of(moved)
if found and revision_of(found) ~= revision_of_copies or mark == "here" then return with_ended({ "here" }) end
if found and #mark == length_of_copy and mark ~= outdated then return with_ended({ mark }) end
if found then remove_sessions({ sid }) end
add_session(sid, record, user_id, login_time, seen, due)
redis.call("SET", moved, copy, "PX", mark_lifetime)
for index = 1, #viewed, 2 do
  redis.call("ZADD", viewed_by .. sid, viewed[index + 1], viewed[index])
end
return with_ended({ copy })

--- depart: Take a session out that has been copied to another store, if it is as it was copied.
-- KEYS: partition moved
-- ARGV: sid copy mark_lifetime
-- Reply: "departed", and the name of the copy for which it was taken out, by whichever process; "changed"; or "gone". See
-- with_ended.
local found, departed = live_record(sid), "departed "
if not found then
  local mark = mark_of(moved)
  if string.sub(mark, 1, #departed) ~= departed then return with_ended({ "gone" }) end
  return with_ended({ "departed", string.sub(mark, #departed + 1) })
end
if revision_of(found) ~= string.sub(copy, 1, #revision_of_copies) then return with_ended({ "changed" }) end
remove_sessions({ sid })
redis.call("SET", moved, departed .. copy, "PX", mark_lifetime)
return with_ended({ "departed", copy })

--- arrive: End the move of a session that was copied: it lives here from now on, or the copy goes.
-- KEYS: partition moved
-- ARGV: sid departed mark_lifetime stays:flag
-- `departed` is the name of the copy for which the session was taken out of the other store; "" if it was ended there. If
-- it `stays` there, the copy goes with its mark. So does the copy of a user who is blocked, who is told.
-- Reply: "arrived" if the session lives here now, "ended" if its copy went, or "gone" if there was none. See with_ended.
local found, mark = redis.call("HGET", login, sid), mark_of(moved)
if not found or revision_of(found) ~= revision_of_copies then return with_ended({ "gone" }) end
-- A mark may have been lost.
local is_marked = #mark == length_of_copy
local lives = departed ~= "" and (mark == departed or not is_marked)
local blocked_user = lives and is_blocked(user_of(found))
if lives and not blocked_user then
  local revision = string.sub(departed, 1, #revision_of_copies)
  redis.call("HSET", login, sid, string.sub(found, 1, 1) .. revision .. string.sub(found, #revision_of_copies + 2))
  if has_old_block then forget_block(user_of(found)) end
  -- pcall: the session is there, even if a full server refuses to count.
  if redis.pcall("HINCRBY", totals, "moved", 1) == 1 then redis.pcall("HSET", totals, "moved_since", time[1]) end
else
  remove_sessions({ sid }, blocked_user and "kicked")
end
if stays then
  redis.call("DEL", moved)
elseif is_marked then
  redis.call("SET", moved, "here", "KEEPTTL")
else
  redis.call("SET", moved, "here", "PX", mark_lifetime)
end
return with_ended({ lives and not blocked_user and "arrived" or "ended" })

--- copies: Name the sessions among these that are copies: their moves have not ended.
-- KEYS: login
-- ARGV: sids...
-- Up to AT_ONCE_MAX sids, or as many as have BYTES_MAX of records.
-- Reply: how many sids were looked at, then the copies.
local found, size = { 0 }, 0
for index = 1, math.min(#sids, AT_ONCE_MAX) do
  if size > BYTES_MAX then break end
  local record = redis.call("HGET", login, sids[index]) or ""
  size = size + #record
  if revision_of(record) == revision_of_copies then found[#found + 1] = sids[index] end
  found[1] = index
end
return found
