"""The configuration file: found, read, checked as a whole, and handed on as frozen dataclasses.

`find.py` says which file, `load.py` reads it, `config.py` is what comes out, `faults.py` what is
wrong with it. `schema.py` is the page to compare with the contract: every key, range and default.
"""
