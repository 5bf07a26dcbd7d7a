-- alive --
-- Processes that have given a sign of life in the last so many seconds.
SELECT id FROM processes WHERE heartbeat_at > now() - make_interval(secs => %s)

-- say --
-- Say something that every gateway, the own one too, hears after all changes committed before.
SELECT pg_notify('gw_changes', %s)

-- answer --
-- Say so.
SELECT pg_notify('gw_heard', %s)
