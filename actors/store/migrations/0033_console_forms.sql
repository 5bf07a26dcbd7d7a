-- An operator has disabled the key: its account's owner cannot enable it. What was disabled before is taken for an
-- operator's unless the audit trail says that an owner did it.
ALTER TABLE keys ADD COLUMN locked boolean NOT NULL DEFAULT false;
UPDATE keys k SET locked = true
WHERE NOT k.enabled AND k.revoked_at IS NULL AND coalesce((
    SELECT t.actor_kind FROM audit_trail t
    WHERE t.object = k.id AND t.action = 'key.set' AND (t.details ->> 'enabled') IS NOT NULL
    ORDER BY t.id DESC LIMIT 1), '') <> 'owner';

-- Forms of the console that were booked: a digest of the page's number and the form on it. Whoever sends one again is
-- refused.
CREATE TABLE console_forms (
    digest     bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

CREATE INDEX console_forms_by_end ON console_forms (expires_at);
