-- others --
-- Processes except this one that have sent a heartbeat in the last so many seconds.
SELECT id FROM processes WHERE id <> %s AND heartbeat_at > now() - make_interval(secs => %s)

-- send --
-- Send questions or replies to every process.
SELECT pg_notify('gw_settled', one) FROM unnest(%s) one
