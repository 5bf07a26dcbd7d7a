-- begin --
-- The start of the first scan.
INSERT INTO media_scan (seen_to) VALUES (now() - make_interval(secs => %(seconds)s)) ON CONFLICT DO NOTHING

-- mine --
-- Lock out other scanners until the end of the transaction.
SELECT seen_to FROM media_scan FOR UPDATE SKIP LOCKED

-- made --
-- Succeeded jobs since some time before the last scan, of which no file is known.
SELECT j.id, j.kind, j.channel_id, j.upstream_id, j.wire, j.result::text, extract(epoch FROM j.ended_at)::float8
FROM jobs j, media_scan s
WHERE j.state = 'succeeded' AND j.kind IN ('video', 'music', 'speech') AND j.deleted_at IS NULL
    AND j.ended_at > s.seen_to - make_interval(secs => %(seconds)s)
    AND NOT EXISTS (SELECT FROM media_copies c WHERE c.job_id = j.id)
ORDER BY j.ended_at LIMIT %(limit)s

-- seen --
-- Store the end of the scan; null: now.
UPDATE media_scan SET seen_to = greatest(seen_to, coalesce(to_timestamp(%(to)s), now()))
