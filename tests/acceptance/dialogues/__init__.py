"""One conversation in the words of each protocol, for the test of every preset.

`asked.py` writes what a client asks, `whole.py` and `streamed.py` read what a client was told.
Nothing here uses the gateway's own codecs: whoever checks a translation with itself learns nothing.
"""
