-- Why a session is gone.
-- needs: partition

-- The note of a session that is gone: "rotated" and its new sid, and "guest" if it had no user; or the reason of its end,
-- the time, and the message for its user. "" where there is none.
local function note_of(sid)
  -- pcall: another program may have stored anything there.
  local note = redis.pcall("GET", ended_of .. sid)
  return type(note) == "string" and note or ""
end
