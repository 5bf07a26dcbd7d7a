-- number --
-- Number what transactions have written; how many.
SELECT events_number(%s)

-- count --
-- {type: how many} of what no process has counted yet; null: none.
SELECT events_count(%s)

-- want_calls --
-- Have each call write its event, as the configuration asks for.
INSERT INTO event_call_readers (name) VALUES ('configuration') ON CONFLICT DO NOTHING

-- leave_calls --
-- Have calls write none, unless a webhook asks for them.
DELETE FROM event_call_readers WHERE name = 'configuration'

-- purge --
-- Delete the oldest events that are older than some days and that no webhook awaits; how many.
SELECT events_purge(clock_timestamp() - %(days)s * interval '1 day', %(most)s)

-- after --
-- Events of all accounts and types after a number, the oldest first, and how far numbers go: a row without one if none is.
SELECT {{standing}}, {{columns}} FROM event_numbers n LEFT JOIN LATERAL (
    SELECT * FROM events WHERE sequence > %(after)s ORDER BY sequence LIMIT %(limit)s) e ON true
ORDER BY e.sequence

-- of_types --
-- Those of some types: by the index of each.
SELECT {{standing}}, {{columns}} FROM event_numbers n LEFT JOIN LATERAL (
    SELECT found.* FROM unnest(%(types)s::text[]) AS wanted(name)
    CROSS JOIN LATERAL (
        SELECT * FROM events WHERE type = wanted.name AND sequence > %(after)s
        ORDER BY sequence LIMIT %(limit)s) found
    ORDER BY found.sequence LIMIT %(limit)s) e ON true
ORDER BY e.sequence

-- of_account --
-- Those of some types and one account: by the index of both.
SELECT {{standing}}, {{columns}} FROM event_numbers n LEFT JOIN LATERAL (
    SELECT found.* FROM unnest(%(types)s::text[]) AS wanted(name)
    CROSS JOIN LATERAL (
        SELECT * FROM events WHERE account_id = %(account)s AND type = wanted.name AND sequence > %(after)s
        ORDER BY sequence LIMIT %(limit)s) found
    ORDER BY found.sequence LIMIT %(limit)s) e ON true
ORDER BY e.sequence

-- newest --
-- Events before a number, the newest first.
SELECT {{columns}} FROM events e WHERE %(before)s::bigint IS NULL OR sequence < %(before)s
ORDER BY sequence DESC LIMIT %(limit)s
