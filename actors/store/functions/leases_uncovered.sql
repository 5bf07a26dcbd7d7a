-- Calls back the leases of an account whose balance does not cover them beside its holds.
CREATE OR REPLACE FUNCTION leases_uncovered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM leases_call_back(NEW.id);
    RETURN NULL;
END $$;
