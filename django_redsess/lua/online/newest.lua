-- Read the newest sessions of lists, after taking out up to DUE_MAX that are due.
-- KEYS: lists...
-- ARGV: active offset:number count:number with_scores:flag keeps_due:flag
-- Of each list up to `count` sessions are read after the first `offset`, those with the highest scores first. `active`
-- keeps those seen at most so many milliseconds ago, and then the scores must be last seen; "" keeps all. `keeps_due`
-- takes out nothing.
-- Reply: a text for each list, since a client takes long to read ten thousand texts. It has the sids one after the
-- other; or, with scores, each sid and its score, with blanks between. See with_ended.
-- needs: deadlines, remove, active
local since = active_since(active)
if since == "" then since = "-inf" end

local function newest_of(list)
  local how = { "BYSCORE", "REV", "LIMIT", offset, count, with_scores and "WITHSCORES" or nil }
  local flat = redis.call("ZRANGE", list, "+inf", since, unpack(how))
  local kept, step = {}, with_scores and 2 or 1
  for at = 1, #flat, step do
    -- Another program may have written to a list.
    if #flat[at] == 20 then
      kept[#kept + 1] = flat[at]
      if with_scores then kept[#kept + 1] = flat[at + 1] end
    end
  end
  return table.concat(kept, with_scores and " " or "")
end

if not keeps_due then remove(due_sids(DUE_MAX), "expired") end
local texts = {}
for _, list in ipairs(lists) do texts[#texts + 1] = newest_of(list) end
return with_ended(texts)
