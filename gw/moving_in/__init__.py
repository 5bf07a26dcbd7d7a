"""Moving in from another gateway: its channels, models and prices into `gw.yaml`, accounts here.

`plan.py` first (what is to be moved, and what stays behind for which reason), then a reader for
each source (`litellm.py`) and `writing.py` (a plan as text of a configuration).
"""
