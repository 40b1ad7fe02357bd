-- Tell what the user of this connection may not do. It changes nothing: the server looks its rules up.
-- ARGV: how many commands, the commands, names of keys. Reply: the commands that there are not, or that it may run on
-- none of the keys; and the keys on which it may not run one of the others.
if not redis.acl_check_cmd then return { {}, {} } end
local count = tonumber(ARGV[1])

local function may(command, key)
  -- The server finds the keys of a command by its arguments, and must find enough of them. It has no command that was
  -- renamed: pcall.
  local known, allowed = pcall(redis.acl_check_cmd, command, key, key, key, key)
  return known and allowed
end

local commands, keys = {}, {}
for index = 2, count + 1 do
  local refused = {}
  for place = count + 2, #ARGV do
    if not may(ARGV[index], ARGV[place]) then table.insert(refused, ARGV[place]) end
  end
  if #refused == #ARGV - count - 1 then
    table.insert(commands, ARGV[index])
  else
    for _, key in ipairs(refused) do keys[key] = true end
  end
end
local names = {}
for name in pairs(keys) do table.insert(names, name) end
return { commands, names }
