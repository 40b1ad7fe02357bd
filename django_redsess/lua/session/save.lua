-- Replace the record of a session that is still there, and still as it was loaded. For all saves that change.lua is not
-- for.
-- KEYS: popularity?
-- ARGV: sid record user_id login_time at due:number place later_stays:flag loaded
-- ONCE: item? keep? items_max?
-- The record was made `at` that time. A guest has "" as user id and login time. `place` is as in set_place.
-- `later_stays` keeps a later deadline. `loaded` is the revision that was loaded, "" to replace any. `item` is viewed;
-- a session keeps so many, and there may be `items_max` in all. `popularity` is given if the item's views are counted
-- in this partition.
-- Reply: "saved". Or nothing is written: "gone" and the note; "changed" and the record that is there; "clock" and the
-- time by which the record must be made. These are followed by the item. See with_ended.
-- needs: clock, seen, record_header, revision, notes, live, steady_clock, viewed_items, relief, entries, remove
local found, before = live_record(sid)
if not found then return with_ended({ "gone", note_of(sid), item }) end
-- The client repeats a command whose reply was lost: then its record is there already.
if revision_of(found) == revision_of(record) then return with_ended({ "saved" }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found, item }) end
local user_before = user_of(found)
local expected = steady_time(redis.call("ZSCORE", seen_list_of(user_before), sid))
if not is_made_at(at, expected) then return with_ended({ "clock", digits(expected), item }) end

first_write(sid, record)
if later_stays then due = math.max(due, before) end
if due ~= before then set_deadline(sid, due, before) end
if user_before ~= user_id then leave(sid, user_before) end
enter(sid, user_id, login_time, at, place)
-- pcall: the session is written, even if a full server refuses this.
if item then pcall(record_view, sid, item, keep, items_max) end
return with_ended({ "saved" })
