"""How channels prove who asks where a key is not enough: by signatures, or tokens that expire.

`specs.py` first (what the configuration says), then `table.py` (which of them makes what).
"""
