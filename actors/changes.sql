-- alive --
-- Processes that have given a sign of life in the last so many seconds.
SELECT id FROM processes WHERE heartbeat_at > now() - make_interval(secs => %s)

-- send --
-- Send a notification that every gateway, the own one too, gets after all changes committed before.
SELECT pg_notify('gw_changes', %s)

-- answer --
-- Send the notifications, in their order.
SELECT count(pg_notify('gw_heard', part)) FROM unnest(%s::text[]) WITH ORDINALITY AS x(part, n)
