-- Numbers that several scripts share, or scripts and Python. A script gets those that it uses.

-- The most sessions that one call takes out or looks up. More would keep the server from others for too long.
local AT_ONCE_MAX = 250
-- The most bytes of records that one call reads.
local BYTES_MAX = 1048576
-- The most due sessions that a call takes out which only reads.
local DUE_MAX = 200
-- The most sign-ins of several users that are put in order.
local CONSIDERED_MAX = 5000
-- Milliseconds.
local HOUR = 3600000
local DAY = 86400000
