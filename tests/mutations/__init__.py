"""Defects made on purpose in money, limits and translation, each of which a named test must find.

rows.py      the defects: file, source text, replacement, the tests that must fail
__main__.py  `python -m tests.mutations` tries each of them in a copy of the tree
"""
