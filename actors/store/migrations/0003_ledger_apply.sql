-- The one statement by which running calls move money: settlements first, so that what they
-- release can be held again, then holds in the order they came, then rows of calls without a hold.
--
-- p_accounts     the accounts of everything below
-- p_keys         keys with a spend cap that something is to be held for; null: none
-- p_settlements  null: none
-- p_details      [detail], one for each settlement
-- p_holds        null: none
-- p_calls        [call], one for each hold: what recovery needs to write the row
-- p_rows         [{account_id, key_id, request_id, row columns…}]   calls that never held anything; null: none
-- p_claims       {wanted: […], ended: […]}   idempotency keys of the holds and settlements above (see
--                                            the migration of that table); null where none has one
--
-- Returns {unsettled: [call_id], refused: [[seq, reason]], taken: [[seq, standing]],
-- accounts: [[id, balance, held]]}. A hold that is already there counts as granted and a settlement
-- whose hold is gone does nothing: the whole batch may be sent again after a lost connection.
--
-- Every call pays twice for what is done here, hence rows of a type instead of JSON objects, which take four times
-- as long to read, few statements, because starting one costs as much as several rows, and a planner that is told
-- to use indexes: it plans once, perhaps on empty tables, and must not look through all holds ever after.

-- An account, and what this batch may take from it at most: its holds, and the cost of its settlements.
CREATE TYPE ledger_account AS (id text, needed bigint);

-- The same of a key, and its cap.
CREATE TYPE ledger_key AS (id text, needed bigint, cap bigint);

-- How a call ended. Without a status no row is written: its caller writes its own.
CREATE TYPE ledger_settlement AS (
    call_id       uuid,
    cost          bigint,
    created_at    double precision,  -- Unix seconds
    submitted_at  double precision,
    protocol      text,
    model         text,
    status        text,
    input_tokens  bigint,
    output_tokens bigint,
    cached_tokens bigint,
    latency_ms    bigint,
    has_detail    boolean,
    rare          json    -- {error_code, error_message, unit_count, unit_type, task_id, result_urls,
                          --  result_expires_at, attempts}: those that are not null
);

CREATE TYPE ledger_hold AS (
    seq        integer,
    call_id    uuid,
    account_id text,
    key_id     text,
    amount     bigint,
    cap        bigint     -- of the key; null: none
);

-- Writes what was decided: these settlements, and these holds or those of them that are granted (null: all).
-- Returns the calls that were settled.
CREATE FUNCTION ledger_write(p_process text, p_settlements ledger_settlement[], p_details json,
    p_holds ledger_hold[], p_calls json, p_granted integer[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    settled uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM holds h
        USING ROWS FROM (unnest(p_settlements), json_array_elements(p_details)) AS s(
            call_id, cost, created_at, submitted_at, protocol, model, status, input_tokens, output_tokens,
            cached_tokens, latency_ms, has_detail, rare, detail)
        WHERE h.call_id = s.call_id
        RETURNING h.call_id, h.account_id, h.key_id, h.amount_nano_usd AS amount, s.cost,
            to_timestamp(s.created_at) AS created_at, to_timestamp(s.submitted_at) AS submitted_at,
            s.protocol, s.model, s.status, s.input_tokens, s.output_tokens, s.cached_tokens, s.latency_ms,
            CASE WHEN s.has_detail THEN s.detail END AS detail, s.rare
    ), granted AS MATERIALIZED (
        SELECT x.call_id, x.account_id, x.key_id, x.amount, x.call
        FROM ROWS FROM (unnest(p_holds), json_array_elements(p_calls)) AS x(
            seq, call_id, account_id, key_id, amount, cap, call)
        WHERE (p_granted IS NULL OR x.seq = ANY (p_granted))
            AND NOT EXISTS (SELECT FROM holds open WHERE open.call_id = x.call_id)
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
        WHERE a.id = t.account_id
    ), of_key AS (
        UPDATE key_spend k
        SET spent_nano_usd = k.spent_nano_usd - t.amount, held_nano_usd = k.held_nano_usd + t.held
        FROM (SELECT key_id, sum(amount) AS amount, sum(held) AS held FROM moved GROUP BY key_id) t
        WHERE k.key_id = t.key_id
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
    SELECT array_agg(call_id) INTO settled FROM gone;
    RETURN settled;
END $$;

CREATE FUNCTION ledger_apply(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_claims json)
RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    touched       text[];
    all_fit       boolean;
    settled       uuid[];
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
BEGIN
    -- Accounts are locked in the order of their ids, so that two processes cannot wait on each
    -- other; every other row changed below belongs to one of these accounts.
    SELECT array_agg(id), bool_and(needed < available_nano_usd) INTO touched, all_fit FROM (
        SELECT a.id, t.needed, a.balance_nano_usd - a.held_nano_usd AS available_nano_usd
        FROM unnest(p_accounts) t JOIN accounts a ON a.id = t.id
        ORDER BY a.id FOR NO KEY UPDATE OF a) locked;
    IF p_keys IS NOT NULL THEN
        SELECT all_fit AND bool_and(coalesce(t.needed < t.cap - k.spent_nano_usd - k.held_nano_usd, false)) INTO all_fit
        FROM unnest(p_keys) t LEFT JOIN key_spend k ON k.key_id = t.id;
    END IF;

    IF all_fit AND p_claims IS NULL AND cardinality(touched) = cardinality(p_accounts) THEN
        -- As nearly always: there is enough for everybody, in whatever order and whatever is released.
        settled := ledger_write(p_process, p_settlements, p_details, p_holds, p_calls, NULL);
    ELSE
        settled := ledger_write(p_process, p_settlements, p_details, NULL, NULL, NULL);
        IF p_claims IS NOT NULL THEN
            PERFORM idempotency_end(p_claims -> 'ended', settled);
            claims := idempotency_find(p_claims -> 'wanted');
        END IF;
        FOR want IN
            SELECT x.seq, x.account_id, x.key_id, x.amount, x.cap,
                a.balance_nano_usd - a.held_nano_usd AS available, open.call_id IS NOT NULL AS is_repeat,
                CASE WHEN x.cap IS NOT NULL THEN k.spent_nano_usd + k.held_nano_usd END AS used_of_cap
            FROM unnest(p_holds) x
            LEFT JOIN accounts a ON a.id = x.account_id
            LEFT JOIN key_spend k ON k.key_id = x.key_id
            LEFT JOIN holds open ON open.call_id = x.call_id
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
            IF claims IS NOT NULL THEN
                PERFORM idempotency_claim(p_claims -> 'wanted', granted);
            END IF;
        END IF;
    END IF;

    IF p_rows IS NOT NULL THEN
        INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, unit_count, unit_type, latency_ms, detail)
        SELECT created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, unit_count, unit_type, latency_ms, detail
        FROM json_to_recordset(p_rows) AS x(
            created_at timestamptz, submitted_at timestamptz, account_id text, key_id text, request_id uuid,
            protocol text, model text, status text, error_code text, error_message text,
            unit_count integer, unit_type text, latency_ms bigint, detail json)
        ON CONFLICT (request_id, created_at) DO NOTHING;
    END IF;

    RETURN json_build_object(
        'unsettled', CASE WHEN cardinality(settled) = cardinality(p_settlements) THEN '[]' ELSE coalesce(
            (SELECT json_agg(call_id) FROM unnest(p_settlements) WHERE (call_id = ANY (settled)) IS NOT TRUE), '[]') END,
        'refused', array_to_json(refused),
        'taken', array_to_json(taken),
        'accounts', coalesce((SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd))
                              FROM accounts WHERE id = ANY (touched)), '[]'));
END $$;
