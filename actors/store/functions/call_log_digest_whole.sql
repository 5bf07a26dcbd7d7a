-- The digest of a row's content, all but its id: that of its columns (`call_log_digest`), and of whom its call was for. A
-- row that says nothing of that has the digest of before.
CREATE OR REPLACE FUNCTION call_log_digest_whole(digest bigint, attribution json)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN attribution IS NULL THEN digest ELSE hash_record_extended(ROW(digest, attribution::text), 0) END
$$;
