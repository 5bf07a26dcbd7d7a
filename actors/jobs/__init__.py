"""Asynchronous media work between the submission that an upstream accepts and its one end.

- `job.py`: a job as it is stored.
- `states.py`: the state table: what was observed, and what follows from it. Sans I/O.
- `schedule.py`: when it is polled next. Sans I/O.
- `settlement.py`: what its end costs, and what its row holds. Sans I/O.
- `store.py`: the SQL: accept, read, list, claim what is due, book what was seen.
- `jobs.py`: what endpoints and commands do with jobs.
- `ending.py`: a settlement applied, and who was first.
- `exchange.py`: one poll or cancellation, over HTTP.
- `renewal.py`: links that have expired, renewed by another poll.
- `content.py`: films that are read with the channel's key.
- `pace.py`: how many polls a process may begin. Sans I/O.
- `poller.py`: the actor of a process that polls what is due.
"""
