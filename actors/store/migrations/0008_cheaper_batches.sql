-- Less for each batch to begin with. What every call writes has no CHECK any more: PostgreSQL reads each one anew for
-- each statement, which was a tenth of a small batch. Domains guard the same values, of columns and of parameters, and
-- are read once in a session; what concerns several columns of a row is proved by `gw ledger verify` (entry_is_sound,
-- row_is_sound). Balances come back from the update itself instead of being read again.

CREATE DOMAIN non_negative AS bigint CONSTRAINT not_negative CHECK (VALUE >= 0);
CREATE DOMAIN positive AS integer CONSTRAINT positive CHECK (VALUE > 0);
CREATE DOMAIN some_text AS text CONSTRAINT not_empty CHECK (VALUE <> '');
CREATE DOMAIN row_status AS text
    CONSTRAINT known_status CHECK (VALUE IN ('success', 'error', 'interrupted', 'rejected'));

ALTER TABLE entries DROP CONSTRAINT entries_effects, DROP CONSTRAINT entries_call;
ALTER TABLE holds DROP CONSTRAINT holds_amount_nano_usd_check;
ALTER TABLE call_logs DROP CONSTRAINT call_logs_status_check, DROP CONSTRAINT call_logs_rejected_is_free;
ALTER TABLE call_log_rollups DROP CONSTRAINT call_log_rollups_hours_check;

ALTER TABLE key_spend DROP CONSTRAINT key_spend_held_not_negative;
ALTER TABLE key_spend ALTER held_nano_usd TYPE non_negative;

DROP TRIGGER accounts_push ON accounts; -- names columns whose type changes
ALTER TABLE accounts DROP CONSTRAINT accounts_held_not_negative, DROP CONSTRAINT accounts_name_check,
    DROP CONSTRAINT accounts_rpm_limit_check, DROP CONSTRAINT accounts_concurrency_limit_check;
ALTER TABLE accounts ALTER held_nano_usd TYPE non_negative, ALTER name TYPE some_text,
    ALTER rpm_limit TYPE positive, ALTER concurrency_limit TYPE positive;
CREATE TRIGGER accounts_push AFTER INSERT OR UPDATE OF name, enabled, rpm_limit, concurrency_limit ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');

ALTER TYPE ledger_settlement ALTER ATTRIBUTE cost TYPE non_negative, ALTER ATTRIBUTE status TYPE row_status;
ALTER TYPE ledger_hold ALTER ATTRIBUTE amount TYPE non_negative;

-- What was written: the calls that were settled, and [[account, balance, held]] of the accounts that it changed.
CREATE TYPE ledger_written AS (settled uuid[], accounts json);

DROP FUNCTION ledger_write;

-- Writes what was decided: these settlements, and these holds or those of them that are granted (null: all).
CREATE FUNCTION ledger_write(p_process text, p_settlements ledger_settlement[], p_details json,
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
        RETURNING a.id, a.balance_nano_usd, a.held_nano_usd
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
    SELECT (SELECT array_agg(call_id) FROM gone),
        (SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) FROM of_account)
    INTO written.settled, written.accounts;
    RETURN written;
END $$;

-- As defined before (0003), with what is written coming back, and with a planner that must not look through all
-- accounts either: a loop over a kept copy of the whole table was what it chose for some thousand of them.
CREATE OR REPLACE FUNCTION ledger_apply(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_claims json)
RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_material = off
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    touched       text[];
    all_fit       boolean;
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
        written := ledger_write(p_process, p_settlements, p_details, p_holds, p_calls, NULL);
    ELSE
        written := ledger_write(p_process, p_settlements, p_details, NULL, NULL, NULL);
        IF p_claims IS NOT NULL THEN
            PERFORM idempotency_end(p_claims -> 'ended', written.settled);
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
        SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd)) INTO written.accounts
        FROM accounts WHERE id = ANY (touched);
    END IF;

    IF p_rows IS NOT NULL THEN
        INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, unit_count, unit_type, latency_ms, detail)
        SELECT created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, unit_count, unit_type, latency_ms, detail
        FROM json_to_recordset(p_rows) AS x(
            created_at timestamptz, submitted_at timestamptz, account_id text, key_id text, request_id uuid,
            protocol text, model text, status row_status, error_code text, error_message text,
            unit_count integer, unit_type text, latency_ms bigint, detail json)
        ON CONFLICT (request_id, created_at) DO NOTHING;
    END IF;

    RETURN json_build_object(
        'unsettled', CASE WHEN cardinality(written.settled) = cardinality(p_settlements) THEN '[]' ELSE coalesce(
            (SELECT json_agg(call_id) FROM unnest(p_settlements)
             WHERE (call_id = ANY (written.settled)) IS NOT TRUE), '[]') END,
        'refused', array_to_json(refused),
        'taken', array_to_json(taken),
        'accounts', coalesce(written.accounts, '[]'));
END $$;
