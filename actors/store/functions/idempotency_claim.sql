-- Claims the idempotency keys of granted holds (by sequence number), for ten minutes unless their calls extend it. A
-- conflicting row has expired.
CREATE OR REPLACE FUNCTION idempotency_claim(p_wanted json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO idempotency (account_id, key, fingerprint, call_id, expires_at)
    SELECT x.account_id, x.key, decode(x.fingerprint, 'hex'), x.call_id, now() + interval '10 minutes'
    FROM json_to_recordset(p_wanted)
        AS x(seq integer, account_id text, call_id uuid, key text, fingerprint text)
    WHERE x.seq = ANY (p_granted)
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
        call_id = excluded.call_id, state = 'executing', status = NULL, headers = NULL, body = NULL,
        created_at = now(), expires_at = excluded.expires_at
$$;
