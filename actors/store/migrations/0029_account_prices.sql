-- What models cost an account, where that is not what they cost everyone: a factor, or prices of its own as the
-- configuration states them. `models` are patterns of model ids. Read with the account's keys, so that every column's
-- change is pushed; a row is never deleted, because rows of calls name it.
CREATE TABLE account_prices (
    id          text PRIMARY KEY,
    account_id  text NOT NULL REFERENCES accounts (id),
    models      text[] NOT NULL CHECK (cardinality(models) > 0),
    factor      numeric CHECK (factor > 0),
    prices      json,
    valid_from  timestamptz NOT NULL,
    valid_until timestamptz CHECK (valid_until > valid_from),
    created_at  timestamptz NOT NULL DEFAULT now(),
    removed_at  timestamptz,
    CHECK ((factor IS NULL) <> (prices IS NULL))
);

CREATE INDEX account_prices_of_account ON account_prices (account_id) WHERE removed_at IS NULL;

CREATE TRIGGER account_prices_push AFTER INSERT OR UPDATE ON account_prices
    FOR EACH ROW EXECUTE FUNCTION push_account();
