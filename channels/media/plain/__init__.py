"""The plain wire: an upstream that has this gateway's own client API, so that one may stand
behind another.

`bodies.py` is what is sent, `submit.py`, `poll.py` and `catalog.py` are the exchanges,
`dialect.py` is all of it under the names that every dialect has.
"""
