-- Read the sessions of a network from the index of addresses, with their place in another order.
-- KEYS: lists...
-- ARGV: first last offset:number count:number
-- `lists` are in pairs: one of addresses, and one that has the other order. `first` and `last` are places of addresses.
-- Of each pair up to `count` sessions, after leaving out `offset`. Those that the other list does not have are left out.
-- Reply: a text for each pair: each sid and its score in the other list, with blanks between.
local texts = {}
for at = 1, #lists, 2 do
  local sids = redis.call("ZRANGE", lists[at], first, last, "BYSCORE", "LIMIT", offset, count)
  local scores = #sids > 0 and redis.call("ZMSCORE", lists[at + 1], unpack(sids)) or {}
  local kept = {}
  for place, sid in ipairs(sids) do
    -- Another program may have written to a list.
    if scores[place] and #sid == 20 then
      kept[#kept + 1] = sid
      kept[#kept + 1] = scores[place]
    end
  end
  texts[#texts + 1] = table.concat(kept, " ")
end
return texts
