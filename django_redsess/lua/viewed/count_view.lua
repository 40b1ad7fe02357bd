-- Count a view of an item whose views are counted in another partition than its session's.
-- KEYS: totals popularity
-- ARGV: item items_max
-- There may be `items_max` items in all.
-- Reply: 1.
-- needs: popularity
count_view(item, items_max)
return 1
