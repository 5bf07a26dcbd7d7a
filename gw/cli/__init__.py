"""The command line: `gw NOUN VERB`, one file for each noun, all put together in `main.py`.

A command takes parsed options and returns an `Answer` (`output.py`); what it may read and write
comes from `context.py`, what it says when it cannot is `failures.py`.
"""
