-- Judges one request against a name's two limits, as `windows.py` does: one round trip, nothing in
-- between. The time is this server's own, so that the hosts' clocks do not matter.
--
-- KEYS   the window: whose request was admitted when
--        the permits: who is in flight, and until when that is believed without being renewed
-- ARGV   requests per minute, concurrency (each may be empty: no limit), the permit's member,
--        the permit's length in microseconds, the time in microseconds (only tests give one)
-- Return {0 admitted, 1 the window is full, 2 concurrency is reached; requests in the window;
--         microseconds until its oldest leaves it; until it has room; in flight}
local rpm, concurrency = tonumber(ARGV[1]), tonumber(ARGV[2])
local member, length = ARGV[3], tonumber(ARGV[4])
local now = time_of(ARGV[5])

local requests, flying = 0, 0
if rpm then
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now - WINDOW))
    requests = redis.call('ZCARD', KEYS[1])
end
if concurrency then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
    flying = redis.call('ZCARD', KEYS[2])
end

local refused, retry = 0, 0
if rpm and requests >= rpm then
    refused = 1
    local freeing = redis.call('ZRANGE', KEYS[1], requests - rpm, requests - rpm, 'WITHSCORES')
    retry = freeing[2] + WINDOW - now
elseif concurrency and flying >= concurrency then
    refused = 2
else
    if rpm then
        redis.call('ZADD', KEYS[1], text(now), member)
        redis.call('PEXPIRE', KEYS[1], WINDOW / 1000)
        requests = requests + 1
    end
    if concurrency then
        redis.call('ZADD', KEYS[2], text(now + length), member)
        redis.call('PEXPIRE', KEYS[2], text(length / 1000))
        flying = flying + 1
    end
end

local reset = 0
if requests > 0 then
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    reset = oldest[2] + WINDOW - now
end
return {refused, requests, reset, retry, flying}
