"""Faults under load, and what became of every call: `./ops/chaos`.

A fault has a gateway of two processes, a PostgreSQL, a Redis and an upstream of its own. Calls come
all the while at the same rate; each has a number of its own, so that afterwards what its client saw
is laid beside its row, its entries and what the upstream served. `faults.py` first (what is done,
and what clients may see of it), then `judge.py` (what must hold whatever is done).

`calls.py` is one call, `load.py` all of them; `stack.py` what runs, `valkey.py` its Redis,
`wrong_clock.py` the clock that jumps; `run.py` takes a fault from its start to its row of the
table.
"""
