-- The only statement by which running calls move money: settlements first, so that the amounts they release can be held
-- again, then holds in order, then rows of calls without a hold.
--
-- p_accounts     the accounts of everything below
-- p_keys         keys with a spend cap that something is to be held for; null: none
-- p_settlements  null: none
-- p_details      the detail of each settlement in JSON, or null, with U+001E between them, which no JSON has
-- p_holds        null: none
-- p_calls        [call], one for each hold: what recovery needs to write the row
-- p_rows         [{account_id, key_id, request_id, row columns…}]   calls that never held anything; null: none
-- p_unusual      {wanted: […], ended: […], recovered: [call_id], jobs: […], late: {call_id: process}, attributed: {…}};
--                null where a batch has none of these.
--                `wanted`, `ended`: idempotency keys of the holds and settlements above (see `idempotency_find`).
--                `recovered`: settlements that recovery makes for a process that was declared dead.
--                `jobs`: what the calls of the holds above begin (see `jobs_begin`).
--                `late`: calls that were admitted out of a lease which has ended, and of which process it was.
--                `attributed`: values that their rows may not be allowed to have (see `attribution_store`); with
--                `is_usual` the batch has nothing else that is unusual.
-- p_batch        the number of this batch of the process, which is kept; null: nothing in it is done twice when it is
--                sent again
-- p_admitted     one for each settlement: the hold of a call that ended before it was written, null for any other;
--                null: there are none
-- p_written      so many of the holds, the first, were admitted out of the process's lease and are never refused
-- p_leases       changes of the process's leases; null: none
-- p_jobs         how the jobs of settlements end (see `jobs_end`); null: none has one
-- p_nodes        {asked: […], leases: […]}, of which any may be missing.
--                `asked`: one for each hold behind the first `p_written`: [version, nodes], the nodes as `budget_hold` takes
--                them, or null, which is no nodes by version 0. `leases`: changes of its leases of nodes (`budget_lease`).
-- p_settled      one for each settlement: the nodes of a call in `p_admitted`, as text ({sum, held, …}); null: there are none
-- p_held         the same of the first `p_written` holds
-- p_moves        what all those calls together move the sums of their nodes by, each sum once; null: nothing
--
-- Returns {unsettled: [call_id], corrected: [call_id], refused: [[seq, reason]], taken: [[seq, standing]],
-- accounts: [[id, balance, held, leased]], leases: [[account, amount]], called: [account], others: [place],
-- versions: [[account, version, runs]], nodes, drawn, warned: [[seq, [budget_id]]], exceeding}; `corrected` are those of the
-- unsettled whose row and cost were corrected, `leases` what the process leases now where that may have changed, `called` those of
-- them that are called back, `versions` of their nodes and how many runs have a ceiling, where not 0. `nodes`, `drawn`: what
-- it leases of nodes now, where it asked for that, and all of it where calls were taken out of it. `warned`: of granted
-- holds, the `warn` nodes at their limit; `exceeding`: what costs passed their holds on nodes by. A refusal as `budget` has
-- a third member, the figures of the node. A hold is refused as `leased` that the balance covers, but for what is leased
-- of it.
--
-- A hold that is already there counts as granted and a settlement whose hold is gone does nothing: such a batch may
-- be sent again after a lost connection; one with a number only if the process's row has another. A process that was
-- declared dead, or has no row, holds nothing: each of its holds is refused as `buried`, and of a batch with a number
-- nothing is applied.
--
-- What is admitted out of a lease is written beside it, and the lease stays what it was: nothing is available twice, as
-- the process counts it against its lease until then. Where the balance does not cover both, the lease shrinks by it.
--
-- A call that recovery settled is corrected when its true settlement comes, and has one row. What every batch pays for it
-- is one look at one row of `processes`; the rest happens only where a settlement was not applied.
--
-- Its plan is made once in a session, perhaps while its tables are empty: `x = ANY (ARRAY[y])` instead of `x = y`, and
-- the settings below, leave the planner nothing but look-ups in an index: with 2,000
-- holds open, a batch planned on empty tables took eight to fifteen times as long.
CREATE OR REPLACE FUNCTION ledger_batch(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details text, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json,
    p_batch bigint, p_admitted ledger_admitted[], p_written integer, p_leases ledger_lease[], p_jobs json,
    p_nodes json, p_settled text[], p_held text[], p_moves budget_move[])
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
    claims        jsonb;            -- of the claims, by seq; null: there are no claims
    claim         jsonb;
    claimed       text[] := '{}';   -- by holds of the account granted above in this batch
    standing      text;
    taken         json[] := '{}';
    late_rows     uuid[];
    late          jsonb;
    called_back   text[] := '{}';
    leases_now    json;
    called_now    json;
    unsettled     json;
    others        json;             -- of the values that were asked for, those that are stored as `other`
    newest        bigint;           -- version of nodes among the accounts
    is_drawn      boolean := false; -- the sums have what admitted calls hold, which else are booked
    nodes         json;
    warned        json[] := '{}';
    exceeding     bigint := 0;
    versions_now  json;
    leased_nodes  json;
BEGIN
    -- One batch of a process at a time, and none while it is being declared dead. A repeated batch waits for the one
    -- whose reply was lost, so that the holds it releases exist.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_process, 0));
    IF p_batch IS NOT NULL THEN
        UPDATE processes SET batch = p_batch WHERE id = p_process AND buried_at IS NULL;
        IF NOT FOUND THEN
            RETURN json_build_object('buried', true);
        END IF;
    END IF;
    -- Accounts are locked in the order of their ids, so that processes cannot deadlock; every other row changed below
    -- belongs to one of these accounts.
    SELECT array_agg(id), bool_and(needed < available_nano_usd),
        EXISTS (SELECT FROM processes p WHERE p.id = p_process AND p.buried_at IS NULL), max(budgets_version)
    INTO touched, all_fit, is_alive, newest FROM (
        SELECT a.id, t.needed, a.balance_nano_usd - a.held_nano_usd - a.leased_nano_usd AS available_nano_usd,
            a.budgets_version
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
        p_held := NULL;
    END IF;
    late := p_unusual -> 'late';
    IF p_moves IS NOT NULL THEN -- what was admitted takes its room before others ask for it
        IF late IS NULL THEN
            SELECT b.exceeding, NOT b.is_covered INTO exceeding, is_drawn FROM budget_book(p_moves) b;
        ELSE
            is_drawn := true;
        END IF;
    END IF;

    IF p_unusual -> 'attributed' IS NOT NULL THEN
        SELECT a.p_settlements, a.p_rows, a.others INTO p_settlements, p_rows, others
        FROM attribution_store(p_unusual -> 'attributed', p_settlements, p_rows) a;
        IF p_unusual -> 'is_usual' IS NOT NULL THEN
            p_unusual := NULL;
        END IF;
    END IF;

    IF all_fit AND p_unusual IS NULL AND cardinality(touched) = cardinality(p_accounts)
        AND ((newest > 0 OR p_nodes -> 'asked' IS NOT NULL) AND cardinality(p_holds) > p_written) IS NOT TRUE
    THEN
        -- The common case: everything fits, in any order and before any release.
        IF is_drawn THEN
            SELECT a.p_settled, a.p_held INTO p_settled, p_held FROM budget_admit(p_process, p_settlements, p_admitted,
                p_settled, p_holds, p_held, NULL) a;
        END IF;
        written := ledger_write_batch(p_process, p_settlements, p_details, p_holds, p_calls, NULL, p_admitted, p_settled,
            p_held, is_drawn);
        IF written.budgets IS NOT NULL THEN
            exceeding := exceeding + (budget_book(budget_moves(written.budgets))).exceeding;
        END IF;
        IF cardinality(p_settlements) > coalesce(cardinality(written.settled), 0) THEN
            corrected := ledger_correct_settled(p_process, p_settlements, p_details, written.settled);
            IF corrected <> '{}' THEN
                SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd, leased_nano_usd)) INTO written.accounts
                FROM accounts WHERE id = ANY (touched);
            END IF;
        END IF;
    ELSE
        IF p_unusual -> 'recovered' IS NOT NULL THEN
            SELECT array_agg(x::uuid) INTO recovered FROM json_array_elements_text(p_unusual -> 'recovered') x;
            p_settlements := ledger_recover(p_process, p_settlements, recovered);
        END IF;
        IF late IS NOT NULL THEN
            p_admitted := ledger_late(p_process, late, p_settlements, p_admitted, recovered);
        END IF;
        IF p_admitted IS NOT NULL OR p_written > 0 THEN
            PERFORM ledger_draw(p_process, p_accounts, p_settlements, p_admitted, p_holds, p_written, late);
        END IF;
        IF is_drawn THEN
            SELECT a.p_settled, a.p_held INTO p_settled, p_held FROM budget_admit(p_process, p_settlements, p_admitted,
                p_settled, p_holds, p_held, late) a;
        END IF;
        written := ledger_write_batch(p_process, p_settlements, p_details, NULL, NULL, NULL, p_admitted, p_settled, NULL,
            is_drawn);
        IF written.budgets IS NOT NULL THEN
            exceeding := exceeding + (budget_book(budget_moves(written.budgets))).exceeding;
        END IF;
        IF p_settlements IS NOT NULL THEN
            corrected := ledger_correct_settled(p_process, p_settlements, p_details, written.settled || recovered);
        END IF;
        IF p_unusual IS NOT NULL THEN
            -- Also the key of a voided call (no status) that recovery has settled.
            PERFORM idempotency_end(p_unusual -> 'ended', written.settled || corrected || (
                SELECT array_agg(s.call_id) FROM unnest(p_settlements) s
                JOIN recovered_calls r ON r.call_id = s.call_id WHERE s.status IS NULL));
            claims := idempotency_find(p_unusual -> 'wanted');
        END IF;
        IF p_holds IS NOT NULL AND p_held IS NULL THEN
            p_held := array_fill(NULL::text, ARRAY[cardinality(p_holds)]);
        END IF;
        FOR want IN
            SELECT x.seq, x.account_id, x.key_id, x.amount, x.cap,
                a.balance_nano_usd - a.held_nano_usd - a.leased_nano_usd AS available,
                a.leased_nano_usd AS leased, a.budgets_version AS version, x.call_id, open.call_id IS NOT NULL AS is_repeat,
                CASE WHEN x.cap IS NOT NULL THEN k.spent_nano_usd + k.held_nano_usd END AS used_of_cap
            FROM unnest(p_holds) x
            LEFT JOIN accounts a ON a.id = ANY (ARRAY[x.account_id])
            LEFT JOIN key_spend k ON k.key_id = ANY (ARRAY[x.key_id])
            LEFT JOIN holds open ON open.call_id = ANY (ARRAY[x.call_id])
            ORDER BY x.account_id, x.seq
        LOOP
            CONTINUE WHEN want.is_repeat OR late ? want.call_id::text AND ledger_knows(want.call_id);
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
                -- Before money: a repeated request needs none.
                claim := claims -> want.seq::text;
                standing := coalesce(claim ->> 'standing',
                    CASE WHEN claim ->> 'key' = ANY (claimed) THEN 'in_flight' END);
                IF standing IS NOT NULL THEN
                    taken := taken || json_build_array(want.seq, standing);
                    CONTINUE;
                END IF;
            END IF;
            -- Nothing is left, or it does not cover the estimate; a free call needs no balance, and an admitted one has
            -- its lease.
            IF want.amount > 0 AND (available <= 0 OR want.amount > available)
                AND want.seq >= p_written
            THEN
                IF want.amount <= available + want.leased THEN
                    refused := refused || json_build_array(want.seq, 'leased');
                    IF want.account_id <> ALL (called_back) THEN
                        called_back := called_back || want.account_id;
                    END IF;
                ELSE
                    refused := refused || json_build_array(want.seq, 'insufficient_funds');
                END IF;
                CONTINUE;
            END IF;
            IF want.cap IS NOT NULL THEN
                left_of_cap := coalesce((cap_left ->> want.key_id)::bigint, want.cap - want.used_of_cap);
                IF left_of_cap <= 0 OR want.amount > left_of_cap THEN
                    refused := refused || json_build_array(want.seq, 'spend_cap');
                    CONTINUE;
                END IF;
            END IF;
            IF want.seq >= p_written THEN
                nodes := p_nodes -> 'asked' -> want.seq - p_written;
                IF want.version <> coalesce((nodes ->> 0)::bigint, 0) THEN
                    nodes := '{"reason": "stale_budgets"}';
                ELSIF json_typeof(nodes) = 'array' THEN
                    nodes := budget_hold(want.account_id, nodes -> 1);
                ELSE
                    nodes := NULL;
                END IF;
                IF nodes ->> 'reason' IS NOT NULL THEN
                    refused := refused || CASE WHEN nodes -> 'budget' IS NULL
                        THEN json_build_array(want.seq, nodes ->> 'reason')
                        ELSE json_build_array(want.seq, nodes ->> 'reason', nodes -> 'budget') END;
                    IF nodes ->> 'reason' = 'leased' AND want.account_id <> ALL (called_back) THEN
                        called_back := called_back || want.account_id;
                    END IF;
                    CONTINUE;
                END IF;
                IF nodes IS NOT NULL THEN
                    p_held[want.seq + 1] := nodes ->> 'held';
                    IF nodes ->> 'warned' <> '[]' THEN
                        warned := warned || json_build_array(want.seq, nodes -> 'warned');
                    END IF;
                END IF;
            END IF;
            IF want.cap IS NOT NULL THEN
                cap_left := cap_left || jsonb_build_object(want.key_id, left_of_cap - want.amount);
            END IF;
            available := available - want.amount;
            granted := granted || want.seq;
            IF claim IS NOT NULL THEN
                claimed := claimed || (claim ->> 'key');
            END IF;
        END LOOP;
        IF granted <> '{}' THEN
            PERFORM ledger_write_batch(p_process, NULL, NULL, p_holds, p_calls, granted, NULL, NULL, p_held, is_drawn);
            IF p_unusual -> 'jobs' IS NOT NULL THEN
                PERFORM jobs_begin(p_unusual -> 'jobs', granted);
            END IF;
            IF claims IS NOT NULL THEN
                PERFORM idempotency_claim(p_unusual -> 'wanted', granted);
            END IF;
        END IF;
        IF called_back <> '{}' THEN
            PERFORM leases_call_back(id) FROM unnest(called_back) id;
        END IF;
        SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd, leased_nano_usd)) INTO written.accounts
        FROM accounts WHERE id = ANY (touched);
    END IF;

    IF p_rows IS NOT NULL THEN
        WITH refusals AS MATERIALIZED (
            SELECT x.*, EXISTS (SELECT FROM recovered_calls r WHERE r.call_id = x.request_id) AS is_recovered
            FROM json_to_recordset(p_rows) AS x(
                created_at timestamptz, submitted_at timestamptz, account_id text, key_id text, request_id uuid,
                protocol text, model text, status row_status, error_code text, error_message text,
                unit_count integer, unit_type text, latency_ms bigint, detail json, attribution json)
        ), logged AS (
            INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
                status, error_code, error_message, unit_count, unit_type, latency_ms, upstream_cost_nano_usd, detail,
                attribution, digest)
            SELECT created_at, submitted_at, account_id, key_id, request_id, protocol, model,
                status, error_code, error_message, unit_count, unit_type, latency_ms, 0, detail, attribution,
                call_log_digest_whole(call_log_digest(account_id, key_id, request_id, created_at, submitted_at, protocol,
                    model, status, error_code, error_message, 0, 0, 0, unit_count, unit_type, 0, latency_ms, NULL, NULL,
                    NULL, NULL, 0, NULL, detail), attribution)
            FROM refusals WHERE NOT is_recovered
            ON CONFLICT (request_id, created_at) DO NOTHING
        )
        SELECT array_agg(request_id) INTO late_rows FROM refusals WHERE is_recovered;
        IF late_rows IS NOT NULL THEN
            PERFORM ledger_correct_refused(p_process, p_rows, late_rows);
            SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd, leased_nano_usd)) INTO written.accounts
            FROM accounts WHERE id = ANY (touched);
        END IF;
    END IF;

    IF p_leases IS NOT NULL THEN
        PERFORM ledger_lease(p_process, p_leases);
    END IF;
    IF p_nodes -> 'leases' IS NOT NULL THEN
        leased_nodes := budget_lease(p_process, p_nodes -> 'leases');
    END IF;
    IF p_leases IS NOT NULL OR late IS NOT NULL OR all_fit IS NOT TRUE THEN
        SELECT json_agg(json_build_array(t.id, coalesce(l.amount_nano_usd, 0))),
            json_agg(t.id) FILTER (WHERE l.called_at IS NOT NULL)
        INTO leases_now, called_now
        FROM unnest(touched) t(id)
        LEFT JOIN leases l ON l.process_id = p_process AND l.account_id = ANY (ARRAY[t.id]);
        SELECT json_agg(json_build_array(a.id, a.budgets_version, a.run_ceilings)) INTO versions_now
        FROM accounts a WHERE a.id = ANY (touched) AND (a.budgets_version > 0 OR a.run_ceilings > 0);
    END IF;
    unsettled := CASE
        WHEN p_settlements IS NULL OR cardinality(written.settled) = cardinality(p_settlements) THEN '[]'
        -- Those of recovery that were skipped are no longer among the settlements.
        ELSE coalesce((
            SELECT json_agg(call_id)
            FROM (SELECT call_id FROM unnest(p_settlements) UNION SELECT unnest(recovered)) s
            WHERE call_id IS NOT NULL AND (call_id = ANY (written.settled)) IS NOT TRUE), '[]') END;
    IF p_jobs IS NOT NULL THEN
        PERFORM jobs_end(p_jobs, ARRAY(SELECT json_array_elements_text(unsettled)::uuid));
    END IF;
    RETURN json_build_object(
        'unsettled', unsettled,
        'corrected', array_to_json(corrected),
        'refused', array_to_json(refused),
        'taken', array_to_json(taken),
        'accounts', coalesce(written.accounts, '[]'),
        'leases', coalesce(leases_now, '[]'),
        'called', coalesce(called_now, '[]'),
        'others', coalesce(others, '[]'),
        'versions', coalesce(versions_now, '[]'),
        'nodes', coalesce(leased_nodes, '[]'),
        'drawn', CASE WHEN is_drawn THEN budget_leases_now(p_process, touched) ELSE '[]' END,
        'warned', array_to_json(warned),
        'exceeding', exceeding);
END $$;
