-- Give a session a new sid and a new record, and move what it viewed. For five minutes a note under the old sid tells
-- late requests.
-- KEYS: popularity?
-- ARGV: old_sid sid record user_id login_time at due:number place loaded limit:number policy full_at:number
-- ONCE: item? keep? items_max?
-- A record of "" says that the new sid has been created in another partition. `limit`, `policy` and
-- `full_at` are as in create.lua, the rest as in save.lua.
-- Reply: as that of save.lua. But "saved" is followed by "crowded" if the user may still have too many; and it may be
-- "refused", as in create.lua.
-- needs: partition, clock, seen, record_header, revision, notes, live, steady_clock, viewed_items, add_session
-- needs: relief, entries, user_limit, remove
local note, note_lifetime = "rotated " .. sid, 300000

-- The client repeats a command whose reply was lost: then the session has moved already.
if string.sub(note_of(old_sid), 1, #note) == note then return with_ended({ "saved", limit and "crowded" }) end
local found, before = live_record(old_sid)
if not found then return with_ended({ "gone", note_of(old_sid), item }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found, item }) end
local expected = steady_time_of(seen_list_of(user_id))
if record ~= "" and not is_made_at(at, expected) then return with_ended({ "clock", digits(expected), item }) end
local leaving, excess, reason = above_limit(user_id, sid, old_sid, limit, policy, full_at)
if not leaving then return with_ended({ "refused", "", item }) end

-- The new sid first: if a full server refuses it, the old one is as it was.
if record ~= "" then
  spared[old_sid] = true
  add_session(sid, record, user_id, login_time, at, due, place, before)
  if redis.call("EXISTS", viewed_by .. old_sid) == 1 then
    redis.call("RENAME", viewed_by .. old_sid, viewed_by .. sid)
  end
  -- pcall: the session is written, even if a full server refuses this.
  if item then pcall(record_view, sid, item, keep, items_max) end
end
redis.call("HDEL", login, old_sid)
redis.call("ZREM", expire, old_sid)
leave(old_sid, user_of(found))
if record == "" then redis.call("DEL", viewed_by .. old_sid) end
if user_of(found) == "" then note = note .. " guest" end
redis.call("SET", ended_of .. old_sid, note, "PX", note_lifetime)
return with_ended({ "saved", end_excess(leaving, excess, reason) })
