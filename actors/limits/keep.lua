-- Takes what a process knows of a name: renews its permits, and puts back what this server forgot or
-- never heard. Saying it twice changes nothing.
--
-- KEYS   the window; the permits (see enter.lua)
-- ARGV   the permit's length in microseconds, the time (may be empty), how many permits follow,
--        their members; then pairs of a member of the window and its age in microseconds
local length, now, count = tonumber(ARGV[1]), time_of(ARGV[2]), tonumber(ARGV[3])

for place = 4, 3 + count do
    redis.call('ZADD', KEYS[2], text(now + length), ARGV[place])
end
if count > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
    redis.call('PEXPIRE', KEYS[2], text(length / 1000))
end
for place = 4 + count, #ARGV, 2 do
    -- Where it is known already, the server's own time for it stays.
    redis.call('ZADD', KEYS[1], 'NX', text(now - tonumber(ARGV[place + 1])), ARGV[place])
    redis.call('PEXPIRE', KEYS[1], WINDOW / 1000)
end
return count
