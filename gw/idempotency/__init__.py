"""One charge for one submit intent: the use of idempotency keys. The rows are the ledger's."""
