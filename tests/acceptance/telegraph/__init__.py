"""An invented dialect: what `.github/CONTRIBUTING.md` shows, and a test puts into the gateway.

A telegraph takes a text and answers with one, and bills the words each way:

    {"model": "m", "text": "Hello", "words": 20, "stream": true}
    data: {"text": "Hel"}
    data: {"text": "lo"}
    data: {"stop": true, "counts": [2, 2]}

`family.py` is its row for `channels/families.py`; the other files are its folder.
"""
