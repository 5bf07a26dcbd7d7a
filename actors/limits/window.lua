-- Stands before `enter.lua` and `keep.lua`: the window's length in microseconds, the time, numbers as text.
local WINDOW = 60000000

-- The time given (only tests give one), or this server's own, in microseconds.
local function time_of(given)
    local now = tonumber(given)
    if now then
        return now
    end
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

local function text(microseconds)
    return string.format('%.0f', microseconds)
end
