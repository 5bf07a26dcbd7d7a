-- Since when a lease is called back. It is until it is gone, so that its process learns of it by its next heartbeat, too.
ALTER TABLE leases ADD COLUMN called_at timestamptz;
CREATE INDEX leases_of_account ON leases (account_id);
CREATE INDEX leases_called ON leases (process_id) WHERE called_at IS NOT NULL;

-- Whatever moves the money: leases that a balance does not cover any more are called back in the same transaction.
CREATE TRIGGER accounts_call_leases_back AFTER UPDATE OF balance_nano_usd, held_nano_usd ON accounts FOR EACH ROW
WHEN (NEW.leased_nano_usd > 0 AND NEW.balance_nano_usd - NEW.held_nano_usd < NEW.leased_nano_usd)
EXECUTE FUNCTION leases_uncovered();
