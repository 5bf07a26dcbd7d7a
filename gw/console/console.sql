-- make_link --
-- Insert a link that signs in once; delete expired ones.
WITH gone AS (DELETE FROM console_links WHERE expires_at < now())
INSERT INTO console_links (digest, account_id, made_by, expires_at)
VALUES (%(digest)s, %(account)s, %(made_by)s, now() + %(seconds)s * interval '1 second')

-- find_link --
-- A link's row if it is valid, without using it. The owner of a disabled account does not sign in.
SELECT l.account_id FROM console_links l LEFT JOIN accounts a ON a.id = l.account_id
WHERE l.digest = %s AND l.expires_at >= now() AND (l.account_id IS NULL OR a.enabled)

-- use_link --
-- Use a link: of two concurrent uses only one gets the row.
DELETE FROM console_links l WHERE l.digest = %s AND l.expires_at >= now()
    AND (l.account_id IS NULL OR (SELECT a.enabled FROM accounts a WHERE a.id = l.account_id))
RETURNING l.account_id, l.made_by

-- open_session --
-- Insert a session; delete expired ones.
WITH gone AS (DELETE FROM console_sessions WHERE expires_at < now())
INSERT INTO console_sessions (id, digest, account_id, name, origin, browser, expires_at)
VALUES (%(id)s, %(digest)s, %(account)s, %(name)s, %(origin)s, %(browser)s,
        now() + %(seconds)s * interval '1 second')

-- find_session --
-- The session of a digest, with the name of its account. An idle session has ended.
SELECT s.id, s.account_id, a.name, s.name, s.origin, s.last_seen_at
FROM console_sessions s LEFT JOIN accounts a ON a.id = s.account_id
WHERE s.digest = %(digest)s AND s.expires_at >= now() AND (s.account_id IS NULL OR a.enabled)
    AND s.last_seen_at >= now() - %(idle)s * interval '1 second'

-- book_form --
-- Record that a form is booked, unless it was; delete expired ones. Of two at once the second waits for the first.
WITH gone AS (DELETE FROM console_forms WHERE expires_at < now())
INSERT INTO console_forms (digest, expires_at) VALUES (%(digest)s, now() + %(seconds)s * interval '1 second')
ON CONFLICT DO NOTHING RETURNING digest

-- see_session --
-- Record a use of a session.
UPDATE console_sessions SET last_seen_at = now() WHERE id = %s

-- sessions --
-- The open sessions, of everyone or of an account's owners, the newest first.
SELECT id, account_id, name, origin, browser, created_at, last_seen_at, expires_at
FROM console_sessions
WHERE expires_at >= now() AND last_seen_at >= now() - %(idle)s * interval '1 second'
    AND (%(account)s::text IS NULL OR account_id = %(account)s)
ORDER BY created_at DESC, id LIMIT %(limit)s

-- end_session --
-- End a session, one of an account's owners or any.
DELETE FROM console_sessions WHERE id = %(id)s AND (%(account)s::text IS NULL OR account_id = %(account)s)
RETURNING account_id
