-- Takes permits of a name away: their requests are over. With a second list, requests that were
-- refused in the end leave the window too.
--
-- KEYS   the window; the permits (see enter.lua)
-- ARGV   how many permits follow, their members; then members of the window
local count = tonumber(ARGV[1])
for place = 2, 1 + count do
    redis.call('ZREM', KEYS[2], ARGV[place])
end
for place = 2 + count, #ARGV do
    redis.call('ZREM', KEYS[1], ARGV[place])
end
return count
