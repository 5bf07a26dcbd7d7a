-- Idempotency keys: one row per account and key, claimed in the transaction that holds the money and
-- given its answer in the one that settles it. `ledger_apply` calls the three functions below under
-- the lock of the account, so two claims of one key never meet, in whatever process they arise.

CREATE TABLE idempotency (
    account_id  text NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,    -- SHA-256 of what was asked
    call_id     uuid NOT NULL,     -- the call that claimed the key
    state       text NOT NULL DEFAULT 'executing' CHECK (state IN ('executing', 'stored', 'too_large')),
    status      smallint,
    headers     json,              -- [[name, value]], the content type among them
    body        bytea,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, key),
    CONSTRAINT idempotency_stored_answer CHECK (
        num_nonnulls(status, headers, body) = CASE state WHEN 'stored' THEN 3 ELSE 0 END),
    CONSTRAINT idempotency_remembers_success CHECK (status BETWEEN 200 AND 299)
);

CREATE UNIQUE INDEX idempotency_of_call ON idempotency (call_id);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

-- Whether a row still counts. A call under way keeps its key, however long it takes. (It takes the
-- columns, because a row as a whole would be put together with its body.)
CREATE FUNCTION idempotency_stands(p_state text, p_call_id uuid, p_expires_at timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_expires_at > now()
        OR p_state = 'executing' AND EXISTS (SELECT FROM holds h WHERE h.call_id = p_call_id)
$$;

-- p_wanted [{seq, account_id, call_id, key, fingerprint}]: who claims a key, and with what request.
-- Returns {seq: {key, standing}}; the standing is null where the key is free.
CREATE FUNCTION idempotency_find(p_wanted json) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(x.seq, jsonb_build_object('key', x.key, 'standing', CASE
            WHEN NOT i.stands THEN NULL
            -- Whatever is asked: only an answer takes the key for good, and there is none yet.
            WHEN i.state = 'executing' THEN 'in_flight'
            WHEN i.fingerprint <> decode(x.fingerprint, 'hex') THEN 'reuse'
            ELSE i.state END))  -- null where there is no row
    FROM json_to_recordset(p_wanted) AS x(seq integer, account_id text, key text, fingerprint text)
    LEFT JOIN LATERAL (
        -- OFFSET 0: one look-up for each key, whatever the planner thinks of so small a table.
        SELECT i.fingerprint, i.state, idempotency_stands(i.state, i.call_id, i.expires_at) AS stands
        FROM idempotency i WHERE i.account_id = x.account_id AND i.key = x.key OFFSET 0) i ON true
$$;

-- The holds of these sequence numbers were granted: their keys are taken, for ten minutes unless
-- the call says more. A row in the way has expired.
CREATE FUNCTION idempotency_claim(p_wanted json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO idempotency (account_id, key, fingerprint, call_id, expires_at)
    SELECT x.account_id, x.key, decode(x.fingerprint, 'hex'), x.call_id, now() + interval '10 minutes'
    FROM json_to_recordset(p_wanted)
        AS x(seq integer, account_id text, call_id uuid, key text, fingerprint text)
    WHERE x.seq = ANY (p_granted)
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
        call_id = excluded.call_id, state = 'executing', status = NULL, headers = NULL, body = NULL,
        created_at = now(), expires_at = excluded.expires_at
$$;

-- p_ended [{call_id, state, status, headers, body}]   state: stored | too_large | free; body: base64
-- A settlement that says nothing of its key leaves it to run out: its client may still ask again
-- while the upstream is at work. One that was not applied, because another came first, changes
-- nothing here either.
CREATE FUNCTION idempotency_end(p_ended json, p_settled uuid[]) RETURNS void LANGUAGE sql AS $$
    WITH ended AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_ended)
            AS x(call_id uuid, state text, status smallint, headers json, body text)
        WHERE x.call_id = ANY (p_settled)
    ), freed AS (
        DELETE FROM idempotency i USING ended e
        WHERE i.call_id = e.call_id AND i.state = 'executing' AND e.state = 'free'
    )
    UPDATE idempotency i SET state = e.state, status = e.status, headers = e.headers,
        body = decode(e.body, 'base64'), expires_at = now() + interval '7 days'
    FROM ended e
    WHERE i.call_id = e.call_id AND i.state = 'executing' AND e.state <> 'free'
$$;
