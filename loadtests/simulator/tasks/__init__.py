"""Upstreams of media: work that takes seconds, and what it has made.

`server.py` takes a request through its endpoint, its directives and a wire to the script of its
answer; `task.py` is the state of a piece of work and the book of all, `call.py` what a wire's
functions are given, and files. `plain/` is the plain wire, the others are providers' dialects.
"""
