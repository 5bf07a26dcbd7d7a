"""Attacks on real processes, each a script that anyone can run and that prints what it found.

They start everything they need by themselves and use the helpers of `tests/support`, so they are
run from a checkout: `python -m loadtests.attacks.NAME`.
"""
