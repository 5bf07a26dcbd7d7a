"""Seeded simulation: some gateway processes on one database, in a world that one seed drives.

The real actors, wallets, calls and jobs run on a loop whose time is a number (`loop.py`). What is
around them is made of chance: a database that is slow, away, frozen, or loses statements and
replies (`store.py`), upstreams that fail, hang and cut (`upstreams.py`), clients that leave
(`clients.py`), keys, limits and budgets that an operator changes (`operator.py`, `keys.py`,
`limits.py`, `budgets.py`), copies of what was made (`copies.py`, `files.py`), processes that are
killed, stopped and cut off (`process.py`, `trouble.py`). What must never happen is looked for at
each statement and each attempt; then the world heals, and what must happen in the end is waited for
(`rules.py`).

    ./ops/simulate --seeds 2000
    ./ops/simulate --seed 417 --trace
"""
