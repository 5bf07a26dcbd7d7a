-- alive --
-- Processes that have sent a heartbeat in the last so many seconds.
SELECT id FROM processes WHERE heartbeat_at > now() - make_interval(secs => %s)

-- send --
-- Send a notification that every gateway, including this one, receives after all changes committed before.
SELECT pg_notify('gw_changes', %s)

-- answer --
-- Send the notifications in order.
SELECT count(pg_notify('gw_heard', part)) FROM unnest(%s::text[]) WITH ORDINALITY AS x(part, n)
