"""Asynchronous media work between the submission that an upstream accepts and its one end.

- `job.py`: a job as it is stored.
- `states.py`: the state table: what was observed, and what follows from it. Sans I/O.
- `schedule.py`: when it is polled next. Sans I/O.
- `store.py`: the SQL: accept, read, list, claim what is due, book what was seen.
- `jobs.py`: what endpoints and commands do with jobs.
"""
