-- What processes have leased of an account's balance, out of which they admit calls in memory. `amount_nano_usd` stays as
-- calls are written, as long as the balance covers both; a lease ends with the row of its process.
ALTER TABLE accounts
    ADD COLUMN leased_nano_usd non_negative NOT NULL DEFAULT 0,  -- the sum of its leases
    ADD COLUMN unleased_until  timestamptz;                      -- someone was refused for a lease: none before then

-- The number of the process's last batch that may not be applied twice.
ALTER TABLE processes ADD COLUMN batch bigint NOT NULL DEFAULT 0;

CREATE TABLE leases (
    process_id      text NOT NULL,
    account_id      text NOT NULL,
    amount_nano_usd bigint NOT NULL,
    PRIMARY KEY (process_id, account_id)
);

CREATE TRIGGER processes_end_leases AFTER DELETE ON processes FOR EACH ROW EXECUTE FUNCTION leases_end();

-- The hold of a call that ended before it was written.
CREATE TYPE ledger_admitted AS (account_id text, key_id text, amount non_negative);

-- A change of the process's lease of an account; one that would be smaller than `least` is not made. Negative: it goes
-- back.
CREATE TYPE ledger_lease AS (account_id text, change bigint, least bigint);
