-- Calls name the sums of their nodes by number, so that booking one reads no text. Calls wait while the locks are waited
-- for, 0.3 s of every 2.3; all are taken at once, so that no batch has one of them and waits for another.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE holds, call_logs, budget_sums, budget_leases IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
END $$;

ALTER TABLE budget_sums ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX budget_sums_by_id ON budget_sums (id);

-- The nodes of a call: {sum, held, sum, held, …}; null: none.
CREATE FUNCTION budget_numbered(p_account text, p_nodes json) RETURNS bigint[] LANGUAGE sql AS $$
    SELECT array_agg(v ORDER BY place, part)
    FROM json_array_elements(p_nodes) WITH ORDINALITY AS x(n, place)
    JOIN budget_sums s ON s.account_id = p_account AND s.budget_id = n ->> 0 AND s.subject = n ->> 1
        AND s.period_from = (n ->> 2)::timestamptz
    CROSS JOIN LATERAL (VALUES (1, s.id), (2, (n ->> 3)::bigint)) y(part, v)
$$;
ALTER TABLE holds ALTER COLUMN budgets TYPE bigint[] USING budget_numbered(account_id, budgets);
DROP FUNCTION budget_numbered;
-- Rows are not written anew: what they have booked stays with the sums, as that of dropped rows does.
ALTER TABLE call_logs DROP COLUMN budgets;
ALTER TABLE call_logs ADD COLUMN budgets bigint[];
UPDATE budget_sums SET carried_spent_nano_usd = spent_nano_usd, carried_excess_nano_usd = excess_nano_usd;

-- What a sum is moved by, of many calls together. needed: of calls admitted in memory, what they hold, or have cost; the
-- limit must cover it beside the leases.
CREATE TYPE budget_move AS (sum bigint, needed bigint, spent bigint, held bigint, excess bigint);
-- A settlement that is to be booked: its cost, and the nodes that have its hold.
CREATE TYPE budget_charge AS (cost bigint, budgets bigint[]);
ALTER TYPE ledger_written DROP ATTRIBUTE budgets;
ALTER TYPE ledger_written ADD ATTRIBUTE budgets budget_charge[];
