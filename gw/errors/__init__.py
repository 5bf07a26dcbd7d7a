"""What a client is told when something goes wrong: the lowest floor of `gw`.

`table.py` is every error as data, `render.py` writes one in the shape of its endpoint,
`unexpected.py` says which error an uncaught exception becomes.
"""
