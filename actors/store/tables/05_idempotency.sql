-- Idempotency keys: one row per account and key, claimed in the transaction that holds the money and
-- given its answer in the one that settles it. `ledger_batch` does both under the lock
-- of the account, so two claims of one key never meet, in whatever process they arise.

CREATE TABLE idempotency (
    account_id  text NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,    -- SHA-256 of what was asked
    call_id     uuid NOT NULL,     -- the call that claimed the key
    state       text NOT NULL DEFAULT 'executing' CHECK (state IN ('executing', 'stored', 'too_large')),
    status      smallint,
    headers     json,              -- [[name, value]], the content type among them
    body        bytea,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, key),
    CONSTRAINT idempotency_stored_answer CHECK (
        num_nonnulls(status, headers, body) = CASE state WHEN 'stored' THEN 3 ELSE 0 END),
    CONSTRAINT idempotency_remembers_success CHECK (status BETWEEN 200 AND 299)
);

CREATE UNIQUE INDEX idempotency_of_call ON idempotency (call_id);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);
