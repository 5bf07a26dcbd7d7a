-- Copies of what jobs have made: one row per file, from its finding to its dropping.
--
-- state     waiting: to be fetched; kept: there; dropping: its bytes are to be removed; dropped, failed: they are not
--           there any more, or never were
-- due_at    of waiting and dropping: when somebody takes it up next; while it is leased, when the lease is over
-- leased_by the claim by which somebody works at it at this moment; null: nobody does
-- done      so many bytes are safe; size: of the whole, as the upstream says or, once kept, as it is
-- validator what tells the upstream's file from another (ETag or Last-Modified)
-- upload_id, parts   of a bucket's upload in parts: its id, the tags of the parts that are there
-- store     where it is: local or s3. What another kind of store keeps is left alone.

CREATE TYPE media_copy_state AS ENUM ('waiting', 'kept', 'dropping', 'dropped', 'failed');

CREATE TABLE media_copies (
    id           text PRIMARY KEY,
    job_id       text NOT NULL,
    position     smallint NOT NULL,
    store        text NOT NULL,
    channel_id   text NOT NULL,
    wire         text NOT NULL,
    upstream_id  text NOT NULL,
    url          text,
    content_type text NOT NULL,
    state        media_copy_state NOT NULL DEFAULT 'waiting',
    due_at       timestamptz NOT NULL DEFAULT now(),
    leased_by    text,
    attempts     smallint NOT NULL DEFAULT 0,
    done         bigint NOT NULL DEFAULT 0,
    size         bigint,
    validator    text,
    upload_id    text,
    parts        text[] NOT NULL DEFAULT '{}',
    error        text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    kept_at      timestamptz,
    UNIQUE (job_id, position)
) WITH (fillfactor = 70);

CREATE INDEX media_copies_due ON media_copies (store, due_at) WHERE state IN ('waiting', 'dropping');
CREATE INDEX media_copies_kept ON media_copies (store, kept_at) WHERE state = 'kept';

-- Up to when the jobs have been looked through for files.
CREATE TABLE media_scan (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only),
    seen_to timestamptz NOT NULL
);

-- Take room for `p_size` bytes in all for one copy, where all copies of its store may have `p_max`; the oldest that are
-- kept are to be dropped for it. False: not before they have been, or never.
CREATE FUNCTION media_room(p_id text, p_lease text, p_store text, p_size bigint, p_max bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    spare bigint;
    oldest record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('media_room', 0));
    SELECT p_max - p_size - coalesce(sum(size) FILTER (WHERE state <> 'dropping'), 0) INTO spare FROM media_copies
    WHERE store = p_store AND state IN ('waiting', 'kept', 'dropping') AND id <> p_id;
    IF spare < 0 AND p_size <= p_max THEN
        FOR oldest IN SELECT id, size FROM media_copies WHERE store = p_store AND state = 'kept' ORDER BY kept_at LOOP
            EXIT WHEN spare >= 0;
            UPDATE media_copies SET state = 'dropping', due_at = now(), leased_by = NULL WHERE id = oldest.id;
            spare := spare + oldest.size;
        END LOOP;
    END IF;
    SELECT p_max - p_size - coalesce(sum(size), 0) INTO spare FROM media_copies
    WHERE store = p_store AND state IN ('waiting', 'kept', 'dropping') AND id <> p_id;
    UPDATE media_copies SET size = p_size WHERE id = p_id AND leased_by = p_lease AND spare >= 0;
    RETURN spare >= 0 AND FOUND;
END $$;

-- What has been made lately.
CREATE INDEX jobs_made ON jobs (ended_at) WHERE state = 'succeeded' AND deleted_at IS NULL;
