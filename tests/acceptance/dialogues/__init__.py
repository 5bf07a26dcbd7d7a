"""One conversation in the words of each protocol, for the test of every preset.

`turn.py` writes what a client requests, `whole.py` and `streamed.py` read what it received.
Nothing here uses the gateway's own codecs: whoever checks a translation with itself learns nothing.
"""
