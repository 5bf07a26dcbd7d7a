"""The dialects of upstreams, a folder each: chat, messages, responses, gemini, images.

A dialect's folder knows its wire form and nothing else: the schema of a request, the address of a
channel, what a response states of usage and ending, and for the chat dialects the decoders and
encoders between the wire and `channels/translation/model.py`. What they share stands beside them;
`dialect.py` says what a call needs to know of each, `table.py` is the table of them.
"""
