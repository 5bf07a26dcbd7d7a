-- Who has looked at the text of a stored key, and when: one row for each view, never changed.
CREATE TABLE key_views (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id    text NOT NULL REFERENCES keys (id),
    viewed_at timestamptz NOT NULL DEFAULT now(),
    os_user   text NOT NULL,
    host      text NOT NULL
);

CREATE INDEX key_views_of_key ON key_views (key_id, id);

CREATE FUNCTION key_views_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'views of keys are append-only';
END $$;

CREATE TRIGGER key_views_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON key_views
    FOR EACH STATEMENT EXECUTE FUNCTION key_views_are_append_only();
