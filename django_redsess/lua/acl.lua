--- acl: Read what the user of this connection may not do. Nothing is changed: the server looks up its rules.
-- ARGV: commands:list names...
-- `names` are keys. It uses no block of other files.
-- Reply: the commands that the server does not know, or that may be run on none of the keys; and the keys on which one
-- of the other commands may not be run.
if not redis.acl_check_cmd then return { {}, {} } end

local ARGUMENTS_MAX = 4

local function is_allowed(command, key)
  local arguments = {}
  for position = 1, ARGUMENTS_MAX do arguments[position] = key end
  -- The server finds the keys of a command among its arguments, so there must be enough of them; Redis 8 refuses too
  -- many. pcall: the server raises an error for too many, and for an unknown command, such as a renamed one.
  for count = ARGUMENTS_MAX, 0, -1 do
    local known, allowed = pcall(redis.acl_check_cmd, command, unpack(arguments, 1, count))
    if known then return allowed end
  end
  return false
end

local refused_commands, refused_keys, listed = {}, {}, {}
for _, command in ipairs(commands) do
  local refused = {}
  for _, name in ipairs(names) do
    if not is_allowed(command, name) then table.insert(refused, name) end
  end
  if #refused == #names then
    table.insert(refused_commands, command)
  else
    for _, name in ipairs(refused) do refused_keys[name] = true end
  end
end
for name in pairs(refused_keys) do table.insert(listed, name) end
return { refused_commands, listed }
