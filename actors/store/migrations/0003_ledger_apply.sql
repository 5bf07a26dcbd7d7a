-- The one statement by which running calls move money: settlements first, so that what they
-- release can be held again, then holds in the order they came, then rows of calls without a hold.
--
-- p_settlements [{call_id, kind, cost, row columns…}]   kind: settle | refund; without a status no
--                                                       row is written, its caller writes its own
-- p_holds       [{seq, call_id, account_id, key_id, amount, cap, call}]
-- p_rows        [{account_id, key_id, request_id, row columns…}]   calls that never held anything
-- p_claims      {wanted: […], ended: […]}   idempotency keys of the holds and settlements above (see
--                                           the migration of that table); null where none has one
--
-- Returns {settled: [call_id], refused: [[seq, reason]], taken: [[seq, standing]],
-- accounts: [[id, balance, held]]}. A hold that is already there counts as granted and a settlement
-- whose hold is gone does nothing: the whole batch may be sent again after a lost connection.
CREATE FUNCTION ledger_apply(p_process text, p_settlements json, p_holds json, p_rows json, p_claims json)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    touched       text[];
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
    SELECT array_agg(id) INTO touched FROM (
        SELECT a.id FROM accounts a
        WHERE a.id IN (SELECT account_id FROM json_to_recordset(p_holds) AS x(account_id text)
                       UNION
                       SELECT account_id FROM json_to_recordset(p_settlements) AS x(account_id text)
                       UNION
                       SELECT account_id FROM json_to_recordset(p_rows) AS x(account_id text))
        ORDER BY a.id FOR NO KEY UPDATE) locked;

    IF json_array_length(p_settlements) > 0 THEN
        WITH s AS MATERIALIZED (
            SELECT * FROM json_to_recordset(p_settlements) AS x(
                call_id uuid, kind text, cost bigint, created_at timestamptz, submitted_at timestamptz,
                protocol text, model text, status text, error_code text, error_message text,
                input_tokens bigint, output_tokens bigint, cached_tokens bigint,
                unit_count integer, unit_type text, latency_ms bigint, task_id text,
                result_urls json, result_expires_at timestamptz, attempts json, detail json)
        ), gone AS (
            DELETE FROM holds h USING s WHERE h.call_id = s.call_id
            RETURNING h.call_id, h.account_id, h.key_id, h.amount_nano_usd AS amount
        ), entry AS (
            INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
            SELECT gone.account_id, gone.key_id, gone.call_id, s.kind, -s.cost, -gone.amount
            FROM gone JOIN s USING (call_id)
        ), logged AS (
            INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
                status, error_code, error_message, input_tokens, output_tokens, cached_tokens,
                unit_count, unit_type, cost_nano_usd, latency_ms, task_id, result_urls,
                result_expires_at, attempts, detail)
            SELECT s.created_at, s.submitted_at, gone.account_id, gone.key_id, gone.call_id, s.protocol,
                s.model, s.status, s.error_code, s.error_message, s.input_tokens, s.output_tokens,
                s.cached_tokens, s.unit_count, s.unit_type, s.cost, s.latency_ms, s.task_id,
                s.result_urls, s.result_expires_at, s.attempts, s.detail
            FROM gone JOIN s USING (call_id) WHERE s.status IS NOT NULL
        ), of_account AS (
            UPDATE accounts a
            SET balance_nano_usd = a.balance_nano_usd - t.cost, held_nano_usd = a.held_nano_usd - t.amount
            FROM (SELECT gone.account_id, sum(s.cost) AS cost, sum(gone.amount) AS amount
                  FROM gone JOIN s USING (call_id) GROUP BY gone.account_id) t
            WHERE a.id = t.account_id
        ), of_key AS (
            UPDATE key_spend k
            SET spent_nano_usd = k.spent_nano_usd + t.cost, held_nano_usd = k.held_nano_usd - t.amount
            FROM (SELECT gone.key_id, sum(s.cost) AS cost, sum(gone.amount) AS amount
                  FROM gone JOIN s USING (call_id) GROUP BY gone.key_id) t
            WHERE k.key_id = t.key_id
        )
        SELECT array_agg(call_id) INTO settled FROM gone;
        IF p_claims IS NOT NULL THEN
            PERFORM idempotency_end(p_claims -> 'ended', settled);
        END IF;
    END IF;

    IF json_array_length(p_holds) > 0 THEN
        IF p_claims IS NOT NULL THEN
            claims := idempotency_find(p_claims -> 'wanted');
        END IF;
        FOR want IN
            SELECT x.seq, x.account_id, x.key_id, x.amount, x.cap,
                a.balance_nano_usd - a.held_nano_usd AS available, open.call_id IS NOT NULL AS is_repeat,
                CASE WHEN x.cap IS NOT NULL THEN k.spent_nano_usd + k.held_nano_usd END AS used_of_cap
            FROM json_to_recordset(p_holds)
                AS x(seq integer, call_id uuid, account_id text, key_id text, amount bigint, cap bigint)
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

        IF cardinality(granted) > 0 THEN
            WITH g AS MATERIALIZED (
                SELECT * FROM json_to_recordset(p_holds) AS x(
                    seq integer, call_id uuid, account_id text, key_id text, amount bigint, call json)
                WHERE seq = ANY (granted)
            ), opened AS (
                INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call)
                SELECT call_id, account_id, key_id, p_process, amount, call FROM g
            ), entry AS (
                INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
                SELECT account_id, key_id, call_id, 'hold', 0, amount FROM g
            ), of_key AS (
                UPDATE key_spend k SET held_nano_usd = k.held_nano_usd + t.amount
                FROM (SELECT key_id, sum(amount) AS amount FROM g GROUP BY key_id) t
                WHERE k.key_id = t.key_id
            )
            UPDATE accounts a SET held_nano_usd = a.held_nano_usd + t.amount
            FROM (SELECT account_id, sum(amount) AS amount FROM g GROUP BY account_id) t
            WHERE a.id = t.account_id;
            IF claims IS NOT NULL THEN
                PERFORM idempotency_claim(p_claims -> 'wanted', granted);
            END IF;
        END IF;
    END IF;

    IF json_array_length(p_rows) > 0 THEN
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
        'settled', coalesce(to_json(settled), '[]'),
        'refused', coalesce(array_to_json(refused), '[]'),
        'taken', coalesce(array_to_json(taken), '[]'),
        'accounts', coalesce((SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd))
                              FROM accounts WHERE id = ANY (touched)), '[]'));
END $$;
