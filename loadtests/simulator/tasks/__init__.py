"""Upstreams of media: work that takes seconds, and what it has made.

`server.py` takes a request through its route (`routes.py`), its directives and a wire to the script
of its answer; `task.py` is the state of a piece of work, `book.py` remembers all of them,
`files.py` serves what they made. `call.py` is what a wire's functions are given; each wire is a
file: `videos.py`, `avatars.py`, `clips.py`, `music.py`, `speech.py`, `voices.py`, `transcripts.py`
speak the plain wire, the others a provider's dialect.
"""
