-- Ends the leases of nodes below an account's lease that has ended. The account is locked.
CREATE OR REPLACE FUNCTION budget_leases_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM budget_leases_of(OLD.process_id, OLD.account_id);
    RETURN NULL;
END $$;
