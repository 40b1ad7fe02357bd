-- Count a view of an item whose popularity is in another partition than its session. KEYS: viewed totals. ARGV: item,
-- how many items there may be.
-- include popular.lua
count_view(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
return 1
