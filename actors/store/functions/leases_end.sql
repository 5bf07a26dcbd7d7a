-- Deletes the leases of a dead process, whose amounts become available again.
CREATE OR REPLACE FUNCTION leases_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM accounts a WHERE a.id IN (SELECT account_id FROM leases WHERE process_id = OLD.id)
    ORDER BY a.id FOR NO KEY UPDATE;
    WITH ended AS (
        DELETE FROM leases WHERE process_id = OLD.id RETURNING account_id, amount_nano_usd
    )
    UPDATE accounts a SET leased_nano_usd = a.leased_nano_usd - e.amount_nano_usd
    FROM ended e WHERE a.id = e.account_id;
    RETURN NULL;
END $$;
