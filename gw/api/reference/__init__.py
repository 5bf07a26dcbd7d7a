"""The reference of the public API: what each row of its table states of itself, and the document.

`operation.py` first; a file for each family of endpoints, `document.py` makes OpenAPI of them.
"""
