-- When `gw ledger verify` ran last, for the gateways' metrics: one row, of whoever ran it.
CREATE TABLE ledger_proofs (
    is_last   boolean     PRIMARY KEY DEFAULT true CHECK (is_last),
    proved_at timestamptz NOT NULL,
    faults    integer     NOT NULL CHECK (faults >= 0)
);
