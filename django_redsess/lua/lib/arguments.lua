-- Arguments whose number varies.

-- The arguments from a place on.
local function arguments_from(place)
  local list = {}
  for index = place, #ARGV do list[#list + 1] = ARGV[index] end
  return list
end

-- A list of arguments, and the place of its last one. Its length stands at `place`: "" for no list (nil).
local function list_at(place)
  local length, list = tonumber(ARGV[place]), {}
  for index = place + 1, place + (length or 0) do list[#list + 1] = ARGV[index] end
  return length and list, place + #list
end
