"""What open jobs cost: python -m loadtests.jobs; see `__main__.py`."""
