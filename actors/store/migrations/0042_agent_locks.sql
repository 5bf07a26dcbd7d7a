-- An operator has disabled the agent: its account's owner cannot enable it. What was disabled before is taken for an
-- operator's unless the audit trail says that an owner did it.
ALTER TABLE agents ADD COLUMN locked boolean NOT NULL DEFAULT false;
UPDATE agents g SET locked = true
WHERE NOT g.enabled AND coalesce((
    SELECT t.actor_kind FROM audit_trail t
    WHERE t.object = g.id AND t.action = 'agent.set' AND (t.details ->> 'enabled') IS NOT NULL
    ORDER BY t.id DESC LIMIT 1), '') <> 'owner';
