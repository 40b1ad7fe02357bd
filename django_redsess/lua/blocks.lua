-- Users who may not sign in for a time.

-- The most blocks that are over which one script takes out. Each new one takes out so many: no cleaner is needed.
local over_max = 100

-- When the block of a user is over, if that is ahead; or false. A user id of "" stands for guests.
local function blocked_until(user_id)
  local over_at = user_id ~= "" and tonumber(redis.call("ZSCORE", blocked, user_id) or 0)
  return over_at and over_at > now and over_at
end

-- What is kept in place of the words about a block that was lifted. Who keeps a copy of it may not know yet.
local lifted_mark = "\n"

-- How long that is kept, if it is not known when the block would be over.
local lifted_for = 86400000

local function set_block(user_id, over_at, text)
  redis.call("ZADD", blocked, over_at, user_id)
  if text == "" then
    redis.call("DEL", block_of_user)
  else
    redis.call("SET", block_of_user, text, "PXAT", over_at)
  end
  local over = redis.call("ZRANGE", blocked, "-inf", digits(now), "BYSCORE", "LIMIT", 0, over_max)
  if #over > 0 then redis.call("ZREM", blocked, unpack(over)) end
end

--- block: Block a user until a time. A block that there is gets this time and these words.
-- KEYS: blocked block_of_user
-- ARGV: user_id over_at text
-- `over_at` is in milliseconds. `text` is what is kept beside it: "" for nothing.
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
if blocked_until(user_id) then return first and "there" or "restored" end
if redis.call("GET", block_of_user) == lifted_mark then return "lifted" end
set_block(user_id, over_at, text)
return "restored"

--- unblock: Lift the block of a user.
-- KEYS: blocked block_of_user
-- ARGV: user_id
-- ONCE: first
-- Reply: 1 if there was a block that was not over, else 0. A repetition can't tell: 1.
local lifted = blocked_until(user_id)
redis.call("ZREM", blocked, user_id)
if lifted then
  redis.call("SET", block_of_user, lifted_mark, "PXAT", digits(lifted))
else
  redis.call("SET", block_of_user, lifted_mark, "PX", lifted_for, "NX")
end
return (lifted or not first) and 1 or 0
