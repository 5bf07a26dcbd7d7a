"""Copies of what tasks have made, so that a result outlives its upstream's link.

A task that has succeeded is found by its row; each of its files becomes a row of `media_copies`,
which any process claims under a lease, fetches piece by piece and puts into a folder or a bucket.
Nothing of it is on the way of a call.

`worker.py` claims and drops what `task_scanner.py` finds; `copier.py` makes one copy; `fetch.py`
reads from the upstream, `addresses.py` checks the addresses that it reads from; `folder.py` and
`bucket.py` (which asks `s3_client.py`) are the two kinds of storage, `storage.py` is their common
interface; `store.py` is the
state in PostgreSQL; `links.py` signs, `results.py` puts the links into responses.
"""
