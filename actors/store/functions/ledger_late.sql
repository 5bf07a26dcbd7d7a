-- Of ended calls that were admitted from a lease which has ended since: returns the holds of those that the ledger does
-- not know otherwise. Settlements made by recovery are noted as such.
CREATE OR REPLACE FUNCTION ledger_late(p_process text, p_late jsonb, p_settlements ledger_settlement[],
    p_admitted ledger_admitted[], p_recovered uuid[])
RETURNS ledger_admitted[] LANGUAGE plpgsql AS $$
DECLARE
    this uuid;
BEGIN
    FOR place IN 1 .. coalesce(cardinality(p_settlements), 0) LOOP
        this := (p_settlements[place]).call_id;
        CONTINUE WHEN p_admitted[place] IS NULL OR (p_late ? this::text) IS NOT TRUE;
        IF ledger_knows(this) OR EXISTS (SELECT FROM holds h WHERE h.call_id = ANY (ARRAY[this])) THEN
            p_admitted[place] := NULL;
        ELSIF this = ANY (p_recovered) THEN
            INSERT INTO recovered_calls (call_id, account_id, process_id, recovered_by, wrote_row)
            VALUES (this, (p_admitted[place]).account_id, p_late ->> this::text, p_process, true);
        END IF;
    END LOOP;
    RETURN p_admitted;
END $$;
