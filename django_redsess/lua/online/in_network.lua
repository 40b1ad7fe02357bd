-- Read the sessions of a network from the index of addresses, with their scores in another list.
-- KEYS: lists...
-- ARGV: first last offset:number count:number
-- `lists` are in pairs: one of addresses, and one by sign-in or last seen. `first` and `last` are places of addresses.
-- Of each pair up to `count` sessions are read, after skipping `offset`. Sessions that are not in the other list are
-- left out.
-- Reply: a text for each pair: each sid and its score in the other list, with blanks between.
local texts = {}
for at = 1, #lists, 2 do
  local sids = redis.call("ZRANGE", lists[at], first, last, "BYSCORE", "LIMIT", offset, count)
  local scores = #sids > 0 and redis.call("ZMSCORE", lists[at + 1], unpack(sids)) or {}
  local kept = {}
  for number, sid in ipairs(sids) do
    -- Another program may have written to a list.
    if scores[number] and #sid == 20 then
      kept[#kept + 1] = sid
      kept[#kept + 1] = scores[number]
    end
  end
  texts[#texts + 1] = table.concat(kept, " ")
end
return texts
