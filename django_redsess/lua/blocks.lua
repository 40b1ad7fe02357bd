-- Users who may not sign in for a time.

-- The most blocks that are over which one script takes out. Each new one takes out so many: no cleaner is needed.
local over_max = 100

-- When the block of a user is over, or was; 0 for no block.
local function end_of_block(user_id)
  return tonumber(redis.call("ZSCORE", blocked, user_id) or 0)
end

-- Whether the user who was asked about last has a block that is over.
local has_old_block = false

-- Whether a user is blocked. A user id of "" stands for guests.
local function is_blocked(user_id)
  local over_at = user_id ~= "" and end_of_block(user_id) or 0
  has_old_block = over_at > 0 and over_at <= now
  return over_at > now
end

-- Kept in place of the words about a block that was lifted: a site may still have a copy of the block.
local lifted_mark = "\n"

-- How long that is kept, if it is not known when the block would be over.
local lifted_for = 86400000

-- Forget the block of a user who has signed in after it was over: it is not in force again if the clock steps back, and
-- who keeps a copy does not put it back.
local function forget_block(user_id)
  redis.call("ZREM", blocked, user_id)
  -- The name is that of keys.Partition.block_of. pcall: the session is there, even if a full server refuses this.
  redis.pcall("SET", blocked .. ":" .. user_id, lifted_mark, "PX", lifted_for)
end

-- For how long the words about a block stay when it is over: a clock that is fast for a while takes none away.
local words_kept_for = 2592000000

local function set_block(user_id, over_at, text)
  redis.call("ZADD", blocked, over_at, user_id)
  redis.call("SET", block_of_user, text, "PXAT", digits(over_at + words_kept_for))
  local over = redis.call("ZRANGE", blocked, "-inf", digits(now), "BYSCORE", "LIMIT", 0, over_max)
  if #over > 0 then redis.call("ZREM", blocked, unpack(over)) end
end

--- block: Block a user until a time. A block that there is gets this time and these words.
-- KEYS: blocked block_of_user
-- ARGV: user_id over_at text
-- `over_at` is in milliseconds. `text` is what is kept beside it.
-- Reply: 1 if the time is ahead; else 0, and nothing is written.
if tonumber(over_at) <= now then return 0 end
set_block(user_id, over_at, text)
return 1

--- restore_block: Block a user again whose block was lost. One that is there stays, and one that was lifted is left so.
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
