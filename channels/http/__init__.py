"""An HTTP/1.1 client for upstreams: kept connections, one exchange at a time, streams as they come.

`client.py` opens requests by `interfaces.py`; `origin.py` is one host with its connections
(`pool.py`, `dialer.py`, `connection.py`), `response.py` what comes back, `sse.py` its events.
"""
