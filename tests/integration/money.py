"""An account, its key and a process, made by SQL for the tests of the ledger."""

from actors.store.database import Database

ACCOUNT, KEY, PROCESS = "acct_a", "key_a", "proc_test"


def entry_guards(what: str) -> str:
    """SQL that does this (DISABLE, ENABLE) to what keeps entries append-only, in every month."""
    return (
        "DO $$ DECLARE one regclass; BEGIN FOR one IN SELECT 'entries'::regclass UNION ALL SELECT"
        " inhrelid::regclass FROM pg_inherits WHERE inhparent = 'entries'::regclass LOOP"
        f" EXECUTE format('ALTER TABLE %s {what} TRIGGER USER', one); END LOOP; END $$"
    )


async def open_account(
    database: Database, balance_nano_usd: int, account_id: str = ACCOUNT, key_id: str = KEY
) -> None:
    """Make an account with one key and this balance, and a process that lives."""
    await database.execute("INSERT INTO accounts (id, name) VALUES (%s, 'n')", (account_id,))
    await database.execute(
        "INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)"
        " VALUES (%s, %s, 'n', 'console', 'p', %s)",
        (key_id, account_id, key_id.encode()),
    )
    await database.execute(
        "INSERT INTO processes (id, host, boot_id, pid) VALUES (%s, 'h', '', 1)"
        " ON CONFLICT DO NOTHING",
        (PROCESS,),
    )
    if balance_nano_usd:
        # As every release can: what books now knows tables that earlier ones lack.
        await database.execute(
            "WITH credited AS (UPDATE accounts SET balance_nano_usd = balance_nano_usd + %(amount)s"
            " WHERE id = %(account)s RETURNING id) INSERT INTO entries (account_id, kind,"
            " amount_nano_usd, held_nano_usd) SELECT id, 'topup', %(amount)s, 0 FROM credited",
            {"account": account_id, "amount": balance_nano_usd},
        )
