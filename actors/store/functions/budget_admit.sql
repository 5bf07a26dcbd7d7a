-- Holds the calls of a batch that were admitted in memory, one by one, where their nodes do not cover them beside the
-- leases; returns the nodes of its settlements and holds with what could be held (`budget_draw`).
--
-- p_late  calls that were admitted out of a lease of another process than this one, which is given
CREATE OR REPLACE FUNCTION budget_admit(p_process text, p_settlements ledger_settlement[], p_admitted ledger_admitted[],
    INOUT p_settled json[], p_holds ledger_hold[], INOUT p_held json[], p_written integer, p_late jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    this ledger_hold;
    call text;
BEGIN
    FOR place IN 1 .. coalesce(cardinality(p_settled), 0) LOOP
        CONTINUE WHEN p_admitted[place] IS NULL OR json_typeof(p_settled[place]) <> 'array';
        call := (p_settlements[place]).call_id::text;
        p_settled[place] := budget_draw(coalesce(p_late ->> call, p_process), (p_admitted[place]).account_id,
            (p_settlements[place]).cost, p_settled[place]);
    END LOOP;
    FOR place IN 1 .. least(p_written, coalesce(cardinality(p_held), 0)) LOOP
        this := p_holds[place];
        call := this.call_id::text;
        CONTINUE WHEN json_typeof(p_held[place]) <> 'array'
            OR EXISTS (SELECT FROM holds h WHERE h.call_id = ANY (ARRAY[this.call_id]))
            OR p_late ? call AND ledger_knows(this.call_id);
        p_held[place] := json_build_array(0, budget_draw(coalesce(p_late ->> call, p_process), this.account_id, NULL,
            p_held[place] -> 1));
    END LOOP;
END $$;
