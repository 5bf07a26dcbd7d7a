-- others --
-- Processes but this one that have given a sign of life in the last so many seconds.
SELECT id FROM processes WHERE id <> %s AND heartbeat_at > now() - make_interval(secs => %s)

-- ask --
-- Ask every other process to say when it has written what it knows of an account.
SELECT pg_notify('gw_settled', %s)

-- answer --
-- Say so, to each of those who have asked.
SELECT pg_notify('gw_settled', answer) FROM unnest(%s) answer
