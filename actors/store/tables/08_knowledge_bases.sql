-- Knowledge bases: whose they are, their pages, the terms these are found by, and who else may read them. A search takes
-- its tokens from the gateway (gw/knowledge/tokens.py); the database's own parser and dictionaries are not used.

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
    -- The page's number within its base: small, and used again once the page is gone, so that strings of bits stay short.
    slot         integer NOT NULL,
    CONSTRAINT kb_pages_once UNIQUE (base_no, id)
);

CREATE INDEX kb_pages_of_source ON kb_pages (r2_key) WHERE r2_key IS NOT NULL;
CREATE INDEX kb_pages_by_tag ON kb_pages USING gin (tags);
-- An index that nothing else is found by: of two that begin with the base, a table without statistics had the one read that
-- has all pages of the base.
CREATE UNIQUE INDEX kb_pages_by_slot ON kb_pages ((base_no << 32 | slot));

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
-- A short pending list: the index takes in what was added to it in small steps.
CREATE INDEX kb_terms_by_term ON kb_terms USING gin (terms) WITH (gin_pending_list_limit = 512);

-- What a search weighs: for each lexeme of a base the pages that have it, so that ranking reads one row for each of its
-- terms and not the vectors of every page. The vectors stay for what needs positions: phrases, nearness, snippets.
--
-- The base of a lexeme is no foreign key, which would be looked up for each of some hundred thousand rows of an import.
-- `entries` are in order. An entry is a page's slot, its best field for the lexeme (as in kb_terms) in 4 bits and how much
-- the page is about it, over all fields, in 16: slot << 20 | field << 16 | weight. `bits` has a one for each page, by slot,
-- up to the last of them; it is there where it is no longer than `entries` are.
CREATE TABLE kb_postings (
    base_no bigint NOT NULL,
    lexeme  text COLLATE "C" NOT NULL,
    pages   integer NOT NULL,
    entries bigint[] NOT NULL,
    bits    bit varying,
    PRIMARY KEY (base_no, lexeme)
);

-- Read whole and often: not to be decompressed each time.
ALTER TABLE kb_postings ALTER COLUMN entries SET STORAGE EXTERNAL;
ALTER TABLE kb_postings ALTER COLUMN bits SET STORAGE EXTERNAL;

-- One term of a search in one base; the bits are as many as the base has slots.
CREATE TYPE kb_list AS (n integer, base integer, rarity integer, bits bit varying, entries bigint[]);

-- An entry that is to be added; none: the lexeme stands in a page that is gone. Empty but within a transaction.
CREATE UNLOGGED TABLE kb_changes (
    base_no bigint NOT NULL,
    lexeme  text COLLATE "C" NOT NULL,
    entry   bigint
);

CREATE INDEX kb_changes_by_lexeme ON kb_changes (base_no, lexeme);

-- Accounts whose bases have changed since the sources that no page names were last removed.
CREATE TABLE kb_unclean (
    account_id text PRIMARY KEY,
    since      timestamptz NOT NULL DEFAULT now()
);
