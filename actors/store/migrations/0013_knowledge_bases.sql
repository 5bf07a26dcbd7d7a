-- Knowledge bases: whose they are, their pages, the terms these are found by, and who else may read them. A search takes
-- its tokens from the gateway (gw/knowledge/tokens.py); the database's own parser and dictionaries are not used.

ALTER TABLE keys ADD COLUMN user_name some_text NOT NULL DEFAULT 'owner';

DROP FUNCTION find_keys(bytea[], bytea[]);

CREATE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, is_revoked boolean,
    is_enabled boolean, is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.user_name::text, k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = k.account_id
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

-- A personal base has its user and the id `default`; the named ones of an account have no user.
CREATE TABLE kb_bases (
    no            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id    text NOT NULL CONSTRAINT kb_bases_of_account REFERENCES accounts (id),
    kb_id         text COLLATE "C" NOT NULL,
    user_name     text COLLATE "C",
    name          text NOT NULL,
    is_restricted boolean NOT NULL DEFAULT false,
    pages         integer NOT NULL DEFAULT 0,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT kb_bases_personal CHECK ((user_name IS NULL) = (kb_id <> 'default'))
);

CREATE UNIQUE INDEX kb_bases_once ON kb_bases (account_id, kb_id, coalesce(user_name, ''));

CREATE TABLE kb_grants (
    base_no    bigint NOT NULL REFERENCES kb_bases (no) ON DELETE CASCADE,
    to_user    text,
    to_account text CONSTRAINT kb_grants_to_account REFERENCES accounts (id),
    CHECK ((to_user IS NULL) <> (to_account IS NULL))
);

CREATE UNIQUE INDEX kb_grants_once ON kb_grants (base_no, coalesce(to_user, ''), coalesce(to_account, ''));

CREATE INDEX kb_grants_of_account ON kb_grants (to_account);

-- `head` and `body` together are the page's file; `digest` is of all that is imported of it.
CREATE TABLE kb_pages (
    no           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    base_no      bigint NOT NULL REFERENCES kb_bases (no) ON DELETE CASCADE,
    id           text COLLATE "C" NOT NULL,
    path         text NOT NULL,
    digest       bytea NOT NULL,
    head         text NOT NULL,
    body         text NOT NULL,
    title        text NOT NULL,
    summary      text NOT NULL,
    tags         text[] NOT NULL,
    aliases      text[] NOT NULL,
    confidence   text NOT NULL,
    needs_review boolean NOT NULL,
    r2_key       text COLLATE "C",
    source_path  text,
    filename     text,
    locator      text,
    compiled_at  text,
    model        text,
    CONSTRAINT kb_pages_once UNIQUE (base_no, id)
);

CREATE INDEX kb_pages_of_source ON kb_pages (r2_key) WHERE r2_key IS NOT NULL;
CREATE INDEX kb_pages_by_tag ON kb_pages USING gin (tags);

-- What a page is called: `alias` without regard to case, `equal` as a whole search may name it.
CREATE TABLE kb_names (
    base_no bigint NOT NULL,
    page_no bigint NOT NULL REFERENCES kb_pages (no) ON DELETE CASCADE,
    kind    text NOT NULL CHECK (kind IN ('alias', 'equal')),
    name    text COLLATE "C" NOT NULL
);

-- Hashed, because a name may be longer than a row of an index.
CREATE INDEX kb_names_by_name ON kb_names (base_no, kind, md5(name));
CREATE INDEX kb_names_of_page ON kb_names (page_no);

-- Links as written, in order; `to_no` is the page that they lead to, as of the last change of the base.
CREATE TABLE kb_links (
    base_no bigint NOT NULL,
    page_no bigint NOT NULL REFERENCES kb_pages (no) ON DELETE CASCADE,
    n       integer NOT NULL,
    target  text COLLATE "C" NOT NULL,
    folded  text COLLATE "C" NOT NULL,
    to_no   bigint,
    PRIMARY KEY (page_no, n)
);

CREATE INDEX kb_links_of_base ON kb_links (base_no);
CREATE INDEX kb_links_to_page ON kb_links (to_no);

-- The terms of a field (0 title, 1 aliases and id, 2 tags, 3 summary, 4 body), a long one in parts that overlap. Each
-- lexeme begins with the number of its base, so that no base's size is felt in another's searches. `starts` and `ends`
-- are where in the body the part stands, in characters.
CREATE TABLE kb_terms (
    page_no bigint NOT NULL REFERENCES kb_pages (no) ON DELETE CASCADE,
    field   smallint NOT NULL,
    part    integer NOT NULL,
    starts  integer NOT NULL,
    ends    integer NOT NULL,
    terms   tsvector NOT NULL,
    PRIMARY KEY (page_no, field, part)
);

-- Read for every page that is ranked: not to be decompressed each time.
ALTER TABLE kb_terms ALTER COLUMN terms SET STORAGE EXTERNAL;
CREATE INDEX kb_terms_by_term ON kb_terms USING gin (terms);
