-- Responses kept for idempotency keys of the admin API are deleted when they are seven days old, the oldest first.
CREATE INDEX admin_responses_by_age ON admin_responses (created_at);
