-- Users who may not sign in for a time.
-- Other names: KEYS and ARGV of a script are locals of it. digits and now are in common.lua.

-- Each new block removes up to so many blocks that are over. So no cleaner is needed.
local over_max = 100

-- When the block of a user ends or has ended; 0 for no block.
local function end_of_block(user_id)
  return tonumber(redis.call("ZSCORE", blocked, user_id) or 0)
end

-- Whether the user of the last is_blocked() has a block that is over.
local has_old_block = false

-- Whether a user is blocked. A user id of "" stands for guests.
local function is_blocked(user_id)
  local over_at = user_id ~= "" and end_of_block(user_id) or 0
  has_old_block = over_at > 0 and over_at <= now
  return over_at > now
end

-- Stored in place of the text of a block that was lifted: a site may still have a copy of the block.
local lifted_mark = "\n"

-- How long the mark is kept if the end of the block is not known.
local lifted_for = 86400000

-- Forget the block of a user who has signed in after its end. So the block is not in force again if the clock steps back,
-- and a site that has a copy does not restore it.
local function forget_block(user_id)
  redis.call("ZREM", blocked, user_id)
  -- The name is that of keys.Partition.block_of. pcall: the session is there, even if a full server refuses this.
  redis.pcall("SET", blocked .. ":" .. user_id, lifted_mark, "PX", lifted_for)
end

-- How long the text of a block stays after its end. So a clock that is fast for a while removes no text.
local words_kept_for = 2592000000

local function set_block(user_id, over_at, text)
  redis.call("ZADD", blocked, over_at, user_id)
  redis.call("SET", block_of_user, text, "PXAT", digits(over_at + words_kept_for))
  local over = redis.call("ZRANGE", blocked, "-inf", digits(now), "BYSCORE", "LIMIT", 0, over_max)
  if #over > 0 then redis.call("ZREM", blocked, unpack(over)) end
end

--- block: Block a user until a time. An earlier block gets this time and this text.
-- KEYS: blocked block_of_user
-- ARGV: user_id over_at text
-- `over_at` is in milliseconds. `text` is stored beside it.
-- Reply: 1 if the time is ahead; else 0, and nothing is written.
if tonumber(over_at) <= now then return 0 end
set_block(user_id, over_at, text)
return 1

--- restore_block: Restore a block that was lost. A block that is there stays, and a lifted one stays lifted.
-- KEYS: blocked block_of_user
-- ARGV: user_id over_at text
-- `over_at` and `text` are as in `block`.
-- ONCE: first
-- Reply: "restored"; or "there", "lifted" or "over", and nothing is written. A repetition can't tell "there" from
-- "restored": it says "restored".
if tonumber(over_at) <= now then return "over" end
if end_of_block(user_id) > now then return first and "there" or "restored" end
if redis.call("GET", block_of_user) == lifted_mark then return "lifted" end
set_block(user_id, over_at, text)
return "restored"

--- unblock: Lift the block of a user.
-- KEYS: blocked block_of_user
-- ARGV: user_id
-- ONCE: first
-- Reply: 1 if there was a block that was not over, else 0. A repetition can't tell: 1.
local over_at = end_of_block(user_id)
local lifted = over_at > now
redis.call("ZREM", blocked, user_id)
if lifted then
  redis.call("SET", block_of_user, lifted_mark, "PXAT", digits(over_at))
else
  redis.call("SET", block_of_user, lifted_mark, "PX", lifted_for, "NX")
end
return (lifted or not first) and 1 or 0
