-- alive --
-- Processes that have given a sign of life in the last so many seconds.
SELECT id FROM processes WHERE heartbeat_at > now() - make_interval(secs => %s)

-- ask --
-- Ask every gateway that listens for changes to say that it has heard all of them up to now.
SELECT pg_notify('gw_changes', %s)

-- say --
-- Say something that comes back to its own process, after all changes committed before.
SELECT pg_notify('gw_changes', %s)

-- answer --
-- Say so.
SELECT pg_notify('gw_heard', %s)
