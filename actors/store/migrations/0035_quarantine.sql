-- Settlements, and rows of refused calls, that the ledger refused for what they say: kept until an operator books them.
-- `message` is what `actors/wallet/quarantine.py` encodes; it is not text, so that nothing in it is refused here, too.
-- `booked_as` says how: whole; shortened to what the cost depends on; or that the call had been settled before.
CREATE TABLE quarantine (
    call_id        uuid PRIMARY KEY,
    account_id     text NOT NULL,
    key_id         text NOT NULL,
    cost_nano_usd  bigint NOT NULL,
    is_recovery    boolean NOT NULL,
    error          text NOT NULL,
    message        bytea NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    booked_at      timestamptz,
    booked_by      text,
    booked_as      text
);

CREATE INDEX quarantine_unbooked ON quarantine (quarantined_at) WHERE booked_at IS NULL;
