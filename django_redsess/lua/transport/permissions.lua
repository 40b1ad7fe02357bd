-- Read what the user of this connection may not do. Nothing is changed: the server looks up its rules.
-- ARGV: commands:list names...
-- `names` are keys.
-- Reply: the commands that the server does not know, or that may be run on none of the keys; and the keys on which one
-- of the other commands may not be run.
if not redis.acl_check_cmd then return { {}, {} } end

local function is_allowed(command, key)
  -- The server finds the keys of a command among its arguments, so there must be enough of them. pcall: it does not
  -- know a command that was renamed.
  local known, allowed = pcall(redis.acl_check_cmd, command, key, key, key, key)
  return known and allowed
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
