"""Knowledge bases: pages of Markdown, who may read them, and how they are searched.

Without I/O: `pages.py` (a file into a page; `front_matter.py`, `links.py`), `tokens.py` (text into
terms), `vectors.py` (what is stored), `query.py`, `snippet.py`. On the database and the disk:
`folder.py`, `importing.py`, `removing.py`, `bases.py`, `reading.py`, `search.py`, `sources.py`.
"""
