-- Record that a session viewed an item, and count the view.
-- KEYS: popularity?
-- ARGV: sid item keep items_max
-- A session keeps so many items, and there may be `items_max` in all. `popularity` is given if the item's views are
-- counted in this partition.
-- Reply: 1; or 0 if the session is gone or due, and nothing is written.
-- needs: partition, deadlines, viewed_items
local lives = deadline_ahead(sid) and redis.call("HEXISTS", login, sid) == 1
if lives then record_view(sid, item, keep, items_max) end
return lives and 1 or 0
