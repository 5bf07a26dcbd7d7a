-- A process that was declared dead holds no more money under its id, a call that was settled for it is corrected
-- when its true settlement comes, and a call has one row, whoever was quicker. What every batch pays for it is one
-- look at one row of `processes`; the rest happens only where a settlement was not applied.

-- Declares a process dead and returns whether it is. `p_heartbeat`: only if it has not beaten since; null: in any
-- case. The lock is that of the process's own batches: one that is under way ends before, and its holds are seen.
CREATE FUNCTION process_bury(p_id text, p_by text, p_heartbeat timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_id, 0));
    UPDATE processes SET buried_at = now(), buried_by = p_by
    WHERE id = p_id AND buried_at IS NULL AND (p_heartbeat IS NULL OR heartbeat_at = p_heartbeat);
    RETURN EXISTS (SELECT FROM processes WHERE id = p_id AND buried_at IS NOT NULL);
END $$;

-- Rows that are changed or taken out leave the sums of the log as they came (`call_logs_roll_up`).
CREATE FUNCTION call_logs_take_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE call_log_rollups r
    SET requests = r.requests - o.requests, cost_nano_usd = r.cost_nano_usd - o.cost,
        input_tokens = r.input_tokens - o.input, output_tokens = r.output_tokens - o.output,
        cached_tokens = r.cached_tokens - o.cached
    FROM (SELECT account_id, g.hours, date_bin(g.width, created_at, '2000-01-01 00:00:00+00') AS bucket, key_id,
              model, status, coalesce(unit_type, '') AS unit_type, coalesce(error_code, '') AS error_code,
              count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
              sum(output_tokens) AS output, sum(cached_tokens) AS cached
          FROM old_rows
          CROSS JOIN (VALUES (1::smallint, interval '1 hour'), (24::smallint, interval '1 day')) g(hours, width)
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) o
    WHERE (r.account_id, r.hours, r.bucket, r.key_id, r.model, r.status, r.unit_type, r.error_code)
        = (o.account_id, o.hours, o.bucket, o.key_id, o.model, o.status, o.unit_type, o.error_code);
    DELETE FROM call_log_rollups WHERE requests = 0 AND account_id IN (SELECT account_id FROM old_rows);
    RETURN NULL;
END $$;

CREATE TRIGGER call_logs_roll_up_changed AFTER UPDATE ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_roll_up();
CREATE TRIGGER call_logs_take_back_changed AFTER UPDATE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();
CREATE TRIGGER call_logs_take_back_removed AFTER DELETE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();

-- Corrects the row of a call that recovery settled to what became of it: the difference is an entry of its own, the
-- row keeps its id and `created_at` (its place in the log), and what it was before is kept beside it. Returns whether
-- there was such a row: a month that is no longer kept has none. The caller holds the lock of the account.
CREATE FUNCTION ledger_correct(p_process text, p_cause correction_cause, p_true ledger_settlement, p_detail json)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    before     call_logs;
    difference bigint;
BEGIN
    SELECT * INTO before FROM call_logs WHERE request_id = p_true.call_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    difference := before.cost_nano_usd - p_true.cost;
    INSERT INTO call_log_corrections (call_id, account_id, cause, corrected_by, row_id, row_before,
        cost_before_nano_usd, cost_after_nano_usd, booked_nano_usd)
    VALUES (before.request_id, before.account_id, p_cause, p_process, before.id, row_to_json(before),
        before.cost_nano_usd, p_true.cost, difference);
    INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
    VALUES (before.account_id, before.key_id, before.request_id, 'correction', difference, 0);
    UPDATE accounts SET balance_nano_usd = balance_nano_usd + difference WHERE id = before.account_id;
    UPDATE key_spend SET spent_nano_usd = spent_nano_usd - difference WHERE key_id = before.key_id;
    UPDATE call_logs SET
        status = p_true.status, error_code = p_true.rare ->> 'error_code',
        error_message = p_true.rare ->> 'error_message', input_tokens = coalesce(p_true.input_tokens, 0),
        output_tokens = coalesce(p_true.output_tokens, 0), cached_tokens = coalesce(p_true.cached_tokens, 0),
        unit_count = (p_true.rare ->> 'unit_count')::integer, unit_type = p_true.rare ->> 'unit_type',
        cost_nano_usd = p_true.cost, latency_ms = p_true.latency_ms, task_id = p_true.rare ->> 'task_id',
        result_urls = p_true.rare -> 'result_urls',
        result_expires_at = to_timestamp((p_true.rare ->> 'result_expires_at')::double precision),
        attempts = p_true.rare -> 'attempts', detail = p_detail
    WHERE request_id = before.request_id AND created_at = before.created_at;
    RETURN true;
END $$;

-- The settlements that found no hold because recovery had been there, corrected; returns their calls. `p_others`:
-- settlements that were applied, and recovery's own, which are no truer than what is there.
CREATE FUNCTION ledger_correct_settled(p_process text, p_settlements ledger_settlement[], p_details json, p_others uuid[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    late      record;
    corrected uuid[] := '{}';
BEGIN
    FOR late IN
        SELECT p_settlements[d.place::integer] AS settlement, CASE WHEN r.has_detail THEN d.detail END AS detail
        FROM json_array_elements(p_details) WITH ORDINALITY AS d(detail, place)
        CROSS JOIN LATERAL (SELECT (p_settlements[d.place::integer]).*) r
        WHERE r.status IS NOT NULL AND (r.call_id = ANY (p_others)) IS NOT TRUE
            AND EXISTS (SELECT FROM recovered_calls x WHERE x.call_id = r.call_id)
            AND NOT EXISTS (SELECT FROM call_log_corrections c
                            WHERE c.call_id = r.call_id AND c.cause <> 'duplicate_row')
    LOOP
        IF ledger_correct(p_process, 'settled_after_recovery', late.settlement, late.detail) THEN
            corrected := corrected || (late.settlement).call_id;
        END IF;
    END LOOP;
    RETURN corrected;
END $$;

-- The rows of refused calls that recovery had settled: each takes the place of recovery's, at no cost.
CREATE FUNCTION ledger_correct_refused(p_process text, p_rows json, p_calls uuid[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    refused record;
    truth   ledger_settlement;
BEGIN
    FOR refused IN
        SELECT x.* FROM json_to_recordset(p_rows) AS x(request_id uuid, status row_status, error_code text,
            error_message text, unit_count integer, unit_type text, latency_ms bigint, detail json)
        JOIN recovered_calls r ON r.call_id = x.request_id AND r.wrote_row
        WHERE x.request_id = ANY (p_calls)
            AND NOT EXISTS (SELECT FROM call_log_corrections c
                            WHERE c.call_id = x.request_id AND c.cause <> 'duplicate_row')
    LOOP
        truth.call_id := refused.request_id;
        truth.cost := 0;
        truth.status := refused.status;
        truth.latency_ms := refused.latency_ms;
        truth.rare := json_build_object('error_code', refused.error_code, 'error_message', refused.error_message,
            'unit_count', refused.unit_count, 'unit_type', refused.unit_type);
        PERFORM ledger_correct(p_process, 'refused_after_recovery', truth, refused.detail);
    END LOOP;
END $$;

-- Recovery is about to settle these calls: notes whose they were, and returns the settlements as they shall be made.
-- A call that has its row already was refused to its client: what it holds goes back, and nothing else.
CREATE FUNCTION ledger_recover(p_process text, p_settlements ledger_settlement[], p_calls uuid[])
RETURNS ledger_settlement[] LANGUAGE plpgsql AS $$
DECLARE
    made ledger_settlement[];
BEGIN
    INSERT INTO recovered_calls (call_id, account_id, process_id, recovered_by, wrote_row)
    SELECT h.call_id, h.account_id, h.process_id, p_process,
        NOT EXISTS (SELECT FROM call_logs l WHERE l.request_id = h.call_id)
    FROM holds h WHERE h.call_id = ANY (p_calls)
    ON CONFLICT DO NOTHING;
    SELECT array_agg(CASE WHEN r.call_id = ANY (p_calls) AND NOT r.wrote_row
            THEN ROW(r.call_id, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::ledger_settlement
            ELSE p_settlements[i.place] END ORDER BY i.place)
    INTO made
    FROM generate_subscripts(p_settlements, 1) AS i(place)
    LEFT JOIN recovered_calls r ON r.call_id = (p_settlements[i.place]).call_id;
    RETURN made;
END $$;

DROP FUNCTION ledger_apply;

-- As defined before (0003, 0008), and:
-- p_claims       becomes p_unusual {wanted: […], ended: […], recovered: [call_id]}; null where a batch has none of
--                these. `recovered` are settlements that recovery makes for a process that it takes for dead.
-- A process that was declared dead, or has no row, holds nothing: each of its holds is refused as `buried`.
-- Returned beside the rest: corrected [call_id], those of the unsettled whose row and cost were corrected.
CREATE FUNCTION ledger_apply(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json)
RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_material = off
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
        FROM unnest(p_accounts) t JOIN accounts a ON a.id = t.id
        ORDER BY a.id FOR NO KEY UPDATE OF a) locked;
    IF p_keys IS NOT NULL THEN
        SELECT all_fit AND bool_and(coalesce(t.needed < t.cap - k.spent_nano_usd - k.held_nano_usd, false)) INTO all_fit
        FROM unnest(p_keys) t LEFT JOIN key_spend k ON k.key_id = t.id;
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
        'unsettled', CASE WHEN cardinality(written.settled) = cardinality(p_settlements) THEN '[]' ELSE coalesce(
            (SELECT json_agg(call_id) FROM unnest(p_settlements)
             WHERE (call_id = ANY (written.settled)) IS NOT TRUE), '[]') END,
        'corrected', array_to_json(corrected),
        'refused', array_to_json(refused),
        'taken', array_to_json(taken),
        'accounts', coalesce(written.accounts, '[]'));
END $$;
