"""The Model Context Protocol without HTTP and without any tool: one POST in, one reply out.

`exchange.py` first; `revisions.py` is the vocabulary, `messages.py` is JSON-RPC, `envelope.py` is
what a head says, `tools.py` is what a tool is.
"""
