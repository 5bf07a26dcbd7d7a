"""What the processes of one `gw serve` share through their parent: limits, and summaries of logs.

`link.py` is a worker's end of the socket between them, `server.py` the parent's; `messages.py` is
what goes over it, `shared_cache.py` what is kept there for a minute.
"""
