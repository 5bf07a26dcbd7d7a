-- Pages go into a base's lists and out of them in portions (`kb_apply_changes`).

DROP FUNCTION kb_add_postings(bigint, bigint[]);
DROP FUNCTION kb_drop_postings(bigint, bigint[]);
DROP FUNCTION kb_either(bit varying, bit varying);

-- An entry that is to be added; none: the lexeme stands in a page that is gone. Empty but within a transaction.
CREATE UNLOGGED TABLE kb_changes (
    base_no bigint NOT NULL,
    lexeme  text COLLATE "C" NOT NULL,
    entry   bigint
);

CREATE INDEX kb_changes_by_lexeme ON kb_changes (base_no, lexeme);

-- The index takes in what was added to it in small steps.
ALTER INDEX kb_terms_by_term SET (gin_pending_list_limit = 512);

-- Accounts whose bases have changed since the sources that no page names were last removed.
CREATE TABLE kb_unclean (
    account_id text PRIMARY KEY,
    since      timestamptz NOT NULL DEFAULT now()
);
