-- Plans of a batch that are good whatever vacuum saw last. `ledger_apply` plans once in a session; where it looked at
-- empty tables then (at night, or a new installation), the planner read an index from one end to the other for each
-- message instead of looking it up: with 2,000 holds open a batch took eight to fifteen times as long, until the tables
-- were analyzed again. `x = ANY (ARRAY[y])` says what `x = y` does and leaves no such choice, because rows in the order
-- of the index are of no use to it; nor does `enable_indexonlyscan = off`. Nothing else is changed in these functions.

-- As defined before (0006).
CREATE OR REPLACE FUNCTION ledger_write(p_process text, p_settlements ledger_settlement[], p_details json,
    p_holds ledger_hold[], p_calls json, p_granted integer[])
RETURNS ledger_written LANGUAGE plpgsql AS $$
DECLARE
    written ledger_written;
BEGIN
    WITH gone AS (
        DELETE FROM holds h
        USING ROWS FROM (unnest(p_settlements), json_array_elements(p_details)) AS s(
            call_id, cost, created_at, submitted_at, protocol, model, status, input_tokens, output_tokens,
            cached_tokens, latency_ms, has_detail, rare, detail)
        WHERE h.call_id = ANY (ARRAY[s.call_id])
        RETURNING h.call_id, h.account_id, h.key_id, h.amount_nano_usd AS amount, s.cost,
            to_timestamp(s.created_at) AS created_at, to_timestamp(s.submitted_at) AS submitted_at,
            s.protocol, s.model, s.status, s.input_tokens, s.output_tokens, s.cached_tokens, s.latency_ms,
            CASE WHEN s.has_detail THEN s.detail END AS detail, s.rare
    ), granted AS MATERIALIZED (
        SELECT x.call_id, x.account_id, x.key_id, x.amount, x.call
        FROM ROWS FROM (unnest(p_holds), json_array_elements(p_calls)) AS x(
            seq, call_id, account_id, key_id, amount, cap, call)
        WHERE (p_granted IS NULL OR x.seq = ANY (p_granted))
            AND NOT EXISTS (SELECT FROM holds open WHERE open.call_id = ANY (ARRAY[x.call_id]))
    ), opened AS (
        INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call)
        SELECT call_id, account_id, key_id, p_process, amount, call FROM granted
    ), moved AS MATERIALIZED (
        SELECT account_id, key_id, call_id, -cost AS amount, -amount AS held,
            -- What was delivered free of charge is still a settlement; nothing delivered is a refund.
            CASE WHEN cost <> 0 OR status = 'success' THEN 'settle'::entry_kind ELSE 'refund' END AS kind
        FROM gone
        UNION ALL
        SELECT account_id, key_id, call_id, 0, amount, 'hold' FROM granted
    ), entry AS (
        INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
        SELECT account_id, key_id, call_id, kind, amount, held FROM moved
    ), of_account AS (
        UPDATE accounts a
        SET balance_nano_usd = a.balance_nano_usd + t.amount, held_nano_usd = a.held_nano_usd + t.held
        FROM (SELECT account_id, sum(amount) AS amount, sum(held) AS held FROM moved GROUP BY account_id) t
        WHERE a.id = ANY (ARRAY[t.account_id])
        RETURNING a.id, a.balance_nano_usd, a.held_nano_usd
    ), of_key AS (
        UPDATE key_spend k
        SET spent_nano_usd = k.spent_nano_usd - t.amount, held_nano_usd = k.held_nano_usd + t.held
        FROM (SELECT key_id, sum(amount) AS amount, sum(held) AS held FROM moved GROUP BY key_id) t
        WHERE k.key_id = ANY (ARRAY[t.key_id])
    ), logged AS (
        INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, input_tokens, output_tokens, cached_tokens,
            unit_count, unit_type, cost_nano_usd, latency_ms, task_id, result_urls,
            result_expires_at, attempts, detail)
        SELECT created_at, submitted_at, account_id, key_id, call_id, protocol, model,
            status, rare ->> 'error_code', rare ->> 'error_message', input_tokens, output_tokens, cached_tokens,
            (rare ->> 'unit_count')::integer, rare ->> 'unit_type', cost, latency_ms, rare ->> 'task_id',
            rare -> 'result_urls', to_timestamp((rare ->> 'result_expires_at')::double precision),
            rare -> 'attempts', detail
        FROM gone WHERE status IS NOT NULL
    )
    SELECT (SELECT array_agg(call_id) FROM gone),
        (SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) FROM of_account)
    INTO written.settled, written.accounts;
    RETURN written;
END $$;

-- As defined before (0008). Accounts are still locked in the order of their ids.
CREATE OR REPLACE FUNCTION ledger_apply(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json)
RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexonlyscan = off SET enable_material = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    touched       text[];
    all_fit       boolean;
    is_alive      boolean;
    recovered     uuid[] := '{}';
    corrected     uuid[] := '{}';
    written       ledger_written;
    granted       integer[] := '{}';
    refused       json[] := '{}';
    current_id    text := '';
    available     bigint := 0;
    cap_left      jsonb := '{}';
    left_of_cap   bigint;
    want          record;
    claims        jsonb;            -- of the claims, by seq; null: nobody claims anything
    claim         jsonb;
    claimed       text[] := '{}';   -- by holds of the account granted above in this batch
    standing      text;
    taken         json[] := '{}';
    late_rows     uuid[];
BEGIN
    -- One batch of a process at a time, and none while it is being buried. A batch that is sent again waits for the
    -- one whose answer was lost, so that the holds it gives back are there.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_process, 0));
    -- Accounts are locked in the order of their ids, so that two processes cannot wait on each
    -- other; every other row changed below belongs to one of these accounts.
    SELECT array_agg(id), bool_and(needed < available_nano_usd),
        EXISTS (SELECT FROM processes p WHERE p.id = p_process AND p.buried_at IS NULL)
    INTO touched, all_fit, is_alive FROM (
        SELECT a.id, t.needed, a.balance_nano_usd - a.held_nano_usd AS available_nano_usd
        FROM unnest(p_accounts) t JOIN accounts a ON a.id = ANY (ARRAY[t.id])
        ORDER BY t.id FOR NO KEY UPDATE OF a) locked;
    IF p_keys IS NOT NULL THEN
        SELECT all_fit AND bool_and(coalesce(t.needed < t.cap - k.spent_nano_usd - k.held_nano_usd, false)) INTO all_fit
        FROM unnest(p_keys) t LEFT JOIN key_spend k ON k.key_id = ANY (ARRAY[t.id]);
    END IF;
    IF NOT is_alive AND p_holds IS NOT NULL THEN
        SELECT array_agg(json_build_array(seq, 'buried')) INTO refused FROM unnest(p_holds);
        p_holds := NULL;
        p_calls := NULL;
    END IF;

    IF all_fit AND p_unusual IS NULL AND cardinality(touched) = cardinality(p_accounts) THEN
        -- As nearly always: there is enough for everybody, in whatever order and whatever is released.
        written := ledger_write(p_process, p_settlements, p_details, p_holds, p_calls, NULL);
        IF cardinality(p_settlements) > coalesce(cardinality(written.settled), 0) THEN
            corrected := ledger_correct_settled(p_process, p_settlements, p_details, written.settled);
            IF corrected <> '{}' THEN
                SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) INTO written.accounts
                FROM accounts WHERE id = ANY (touched);
            END IF;
        END IF;
    ELSE
        IF p_unusual -> 'recovered' IS NOT NULL THEN
            SELECT array_agg(x::uuid) INTO recovered FROM json_array_elements_text(p_unusual -> 'recovered') x;
            p_settlements := ledger_recover(p_process, p_settlements, recovered);
        END IF;
        written := ledger_write(p_process, p_settlements, p_details, NULL, NULL, NULL);
        IF p_settlements IS NOT NULL THEN
            corrected := ledger_correct_settled(p_process, p_settlements, p_details, written.settled || recovered);
        END IF;
        IF p_unusual IS NOT NULL THEN
            -- Also the key of a call that is given up (no status) after recovery has settled it.
            PERFORM idempotency_end(p_unusual -> 'ended', written.settled || corrected || (
                SELECT array_agg(s.call_id) FROM unnest(p_settlements) s
                JOIN recovered_calls r ON r.call_id = s.call_id WHERE s.status IS NULL));
            claims := idempotency_find(p_unusual -> 'wanted');
        END IF;
        FOR want IN
            SELECT x.seq, x.account_id, x.key_id, x.amount, x.cap,
                a.balance_nano_usd - a.held_nano_usd AS available, open.call_id IS NOT NULL AS is_repeat,
                CASE WHEN x.cap IS NOT NULL THEN k.spent_nano_usd + k.held_nano_usd END AS used_of_cap
            FROM unnest(p_holds) x
            LEFT JOIN accounts a ON a.id = ANY (ARRAY[x.account_id])
            LEFT JOIN key_spend k ON k.key_id = ANY (ARRAY[x.key_id])
            LEFT JOIN holds open ON open.call_id = ANY (ARRAY[x.call_id])
            ORDER BY x.account_id, x.seq
        LOOP
            CONTINUE WHEN want.is_repeat;
            IF want.account_id <> current_id THEN
                current_id := want.account_id;
                available := want.available;
                claimed := '{}';
            END IF;
            IF want.available IS NULL THEN
                refused := refused || json_build_array(want.seq, 'unknown_account');
                CONTINUE;
            END IF;
            IF claims IS NOT NULL THEN
                -- Before money: whoever asks again needs none.
                claim := claims -> want.seq::text;
                standing := coalesce(claim ->> 'standing',
                    CASE WHEN claim ->> 'key' = ANY (claimed) THEN 'in_flight' END);
                IF standing IS NOT NULL THEN
                    taken := taken || json_build_array(want.seq, standing);
                    CONTINUE;
                END IF;
            END IF;
            -- Nothing is left, or what is left does not cover the estimate.
            IF available <= 0 OR want.amount > available THEN
                refused := refused || json_build_array(want.seq, 'insufficient_funds');
                CONTINUE;
            END IF;
            IF want.cap IS NOT NULL THEN
                left_of_cap := coalesce((cap_left ->> want.key_id)::bigint, want.cap - want.used_of_cap);
                IF left_of_cap <= 0 OR want.amount > left_of_cap THEN
                    refused := refused || json_build_array(want.seq, 'spend_cap');
                    CONTINUE;
                END IF;
                cap_left := cap_left || jsonb_build_object(want.key_id, left_of_cap - want.amount);
            END IF;
            available := available - want.amount;
            granted := granted || want.seq;
            IF claim IS NOT NULL THEN
                claimed := claimed || (claim ->> 'key');
            END IF;
        END LOOP;
        IF granted <> '{}' THEN
            PERFORM ledger_write(p_process, NULL, NULL, p_holds, p_calls, granted);
            IF p_unusual -> 'jobs' IS NOT NULL THEN
                PERFORM jobs_begin(p_unusual -> 'jobs', granted);
            END IF;
            IF claims IS NOT NULL THEN
                PERFORM idempotency_claim(p_unusual -> 'wanted', granted);
            END IF;
        END IF;
        SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) INTO written.accounts
        FROM accounts WHERE id = ANY (touched);
    END IF;

    IF p_rows IS NOT NULL THEN
        WITH said AS MATERIALIZED (
            SELECT x.*, EXISTS (SELECT FROM recovered_calls r WHERE r.call_id = x.request_id) AS is_recovered
            FROM json_to_recordset(p_rows) AS x(
                created_at timestamptz, submitted_at timestamptz, account_id text, key_id text, request_id uuid,
                protocol text, model text, status row_status, error_code text, error_message text,
                unit_count integer, unit_type text, latency_ms bigint, detail json)
        ), logged AS (
            INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
                status, error_code, error_message, unit_count, unit_type, latency_ms, detail)
            SELECT created_at, submitted_at, account_id, key_id, request_id, protocol, model,
                status, error_code, error_message, unit_count, unit_type, latency_ms, detail
            FROM said WHERE NOT is_recovered
            ON CONFLICT (request_id, created_at) DO NOTHING
        )
        SELECT array_agg(request_id) INTO late_rows FROM said WHERE is_recovered;
        IF late_rows IS NOT NULL THEN
            PERFORM ledger_correct_refused(p_process, p_rows, late_rows);
            SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) INTO written.accounts
            FROM accounts WHERE id = ANY (touched);
        END IF;
    END IF;

    RETURN json_build_object(
        'unsettled', CASE
            WHEN p_settlements IS NULL OR cardinality(written.settled) = cardinality(p_settlements) THEN '[]'
            -- Recovery's that were left alone do not stand in the settlements any more.
            ELSE coalesce((
                SELECT json_agg(call_id)
                FROM (SELECT call_id FROM unnest(p_settlements) UNION SELECT unnest(recovered)) s
                WHERE call_id IS NOT NULL AND (call_id = ANY (written.settled)) IS NOT TRUE), '[]') END,
        'corrected', array_to_json(corrected),
        'refused', array_to_json(refused),
        'taken', array_to_json(taken),
        'accounts', coalesce(written.accounts, '[]'));
END $$;

-- As defined before (0005).
CREATE OR REPLACE FUNCTION idempotency_end(p_ended json, p_settled uuid[]) RETURNS void LANGUAGE sql AS $$
    WITH ended AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_ended)
            AS x(call_id uuid, state text, status smallint, headers json, body text)
        WHERE x.call_id = ANY (p_settled)
    ), freed AS (
        DELETE FROM idempotency i USING ended e
        WHERE i.call_id = ANY (ARRAY[e.call_id]) AND i.state = 'executing' AND e.state = 'free'
    )
    UPDATE idempotency i SET state = e.state, status = e.status, headers = e.headers,
        body = decode(e.body, 'base64'), expires_at = now() + interval '7 days'
    FROM ended e
    WHERE i.call_id = ANY (ARRAY[e.call_id]) AND i.state = 'executing' AND e.state <> 'free'
$$;

-- As defined before (0010).
CREATE OR REPLACE FUNCTION jobs_begin(p_jobs json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    WITH begun AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_jobs) AS x(seq integer, id text, call_id uuid, account_id text, key_id text,
            kind text, protocol text, model text, request json, billing json, submitted_at double precision,
            deadline double precision)
        WHERE x.seq = ANY (p_granted)
    ), made AS (
        INSERT INTO jobs (id, call_id, account_id, key_id, kind, protocol, model, request, billing, submitted_at,
            deadline_at)
        SELECT id, call_id, account_id, key_id, kind, protocol, model, request, billing, to_timestamp(submitted_at),
            now() + make_interval(secs => deadline)
        FROM begun
    )
    UPDATE holds h SET job_id = b.id FROM begun b WHERE h.call_id = ANY (ARRAY[b.call_id])
$$;
