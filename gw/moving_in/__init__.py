"""Moving in from another gateway: its channels, models and prices into `gw.yaml`, accounts here.

`plan.py` first (what is to be moved, and what stays behind for which reason), then a reader for
each source (`litellm.py`; `new_api.py`, out of the rows of `new_api_tables.py`), `writing.py` (a
plan as text of a configuration) and `booking.py` (accounts with their balances, once).
"""
