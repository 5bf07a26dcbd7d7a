-- Holds the calls of a batch that were admitted in memory, one by one, where their nodes do not cover them beside the
-- leases; returns the nodes of its settlements and holds with what could be held (`budget_draw`).
--
-- p_settled, p_held  the nodes of each as text, null: none
-- p_late             calls that were admitted out of a lease of another process than this one, which is given
CREATE OR REPLACE FUNCTION budget_admit(p_process text, p_settlements ledger_settlement[], p_admitted ledger_admitted[],
    INOUT p_settled text[], p_holds ledger_hold[], INOUT p_held text[], p_late jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    this ledger_hold;
    call text;
BEGIN
    FOR place IN 1 .. coalesce(cardinality(p_settled), 0) LOOP
        CONTINUE WHEN p_admitted[place] IS NULL OR p_settled[place] IS NULL;
        call := (p_settlements[place]).call_id::text;
        p_settled[place] := budget_draw(coalesce(p_late ->> call, p_process), (p_settlements[place]).cost,
            p_settled[place]::bigint[])::text;
    END LOOP;
    FOR place IN 1 .. coalesce(cardinality(p_held), 0) LOOP
        this := p_holds[place];
        call := this.call_id::text;
        CONTINUE WHEN p_held[place] IS NULL OR EXISTS (SELECT FROM holds h WHERE h.call_id = ANY (ARRAY[this.call_id]))
            OR p_late ? call AND ledger_knows(this.call_id);
        p_held[place] := budget_draw(coalesce(p_late ->> call, p_process), NULL, p_held[place]::bigint[])::text;
    END LOOP;
END $$;
