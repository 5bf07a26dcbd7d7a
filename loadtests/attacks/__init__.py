"""Attacks on real processes, scenarios of `python -m loadtests`.

They use the helpers of `tests/support`, so they are run from a checkout.
"""
