-- Where events are sent to. At most one process at a time sends to an address: the one in `claimed_by`, as long as it is
-- not declared dead; `claim` rises with each taking and stands in whatever that process writes.
--   types            null: all but call.settled
--   disabled_for     why the gateway disabled it: gone, failing; null: it did not
--   sealed_secret    of its signatures; while it is being changed the one before signs too, until previous_until
--   after_sequence   up to where its events have been taken from the outbox into webhook_deliveries
--   pending, dead    how many deliveries are, counted by whatever changes one, under this row's lock
--   failing_since    when an attempt failed first since the last one that did not
--   deleted_at       it is gone for operators, and the row goes with its last delivery
CREATE TABLE webhooks (
    id              text PRIMARY KEY,
    url             text NOT NULL,
    types           text[],
    account_id      text CONSTRAINT webhooks_of_account REFERENCES accounts (id),
    enabled         boolean NOT NULL DEFAULT true,
    disabled_for    text,
    sealed_secret   bytea NOT NULL,
    previous_secret bytea,
    previous_until  timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    after_sequence  bigint NOT NULL,
    pending         bigint NOT NULL DEFAULT 0 CHECK (pending >= 0),
    dead            bigint NOT NULL DEFAULT 0 CHECK (dead >= 0),
    failing_since   timestamptz,
    claimed_by      text,
    claim           bigint NOT NULL DEFAULT 0,
    deleted_at      timestamptz
) WITH (fillfactor = 50);

CREATE TRIGGER webhooks_push AFTER INSERT OR UPDATE OF url, types, account_id, enabled, sealed_secret, previous_secret,
        previous_until, deleted_at ON webhooks
    FOR EACH ROW EXECUTE FUNCTION push_change('webhook');

CREATE TRIGGER webhooks_read_calls AFTER INSERT OR UPDATE OF types, enabled, deleted_at ON webhooks
    FOR EACH ROW EXECUTE FUNCTION webhook_reads_calls();

-- One row for each event that a webhook was or is to be sent, kept as long as the event. A pending one without
-- next_attempt_at was not tried yet: those go in the order of their numbers, others when they are due.
CREATE TABLE webhook_deliveries (
    webhook_id      text NOT NULL,
    sequence        bigint NOT NULL,
    event_id        text NOT NULL,
    type            text NOT NULL,
    status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        integer NOT NULL DEFAULT 0,
    last_attempt_at timestamptz,
    last_outcome    text,
    next_attempt_at timestamptz,
    PRIMARY KEY (webhook_id, sequence)
);

CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, sequence) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_first ON webhook_deliveries (webhook_id, sequence)
    WHERE status = 'pending' AND next_attempt_at IS NULL;
CREATE INDEX webhook_deliveries_later ON webhook_deliveries (webhook_id, next_attempt_at, sequence)
    WHERE status = 'pending' AND next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (webhook_id, sequence) WHERE status = 'dead';
