"""Attacks on real processes, scenarios of `python -m loadtests`."""
