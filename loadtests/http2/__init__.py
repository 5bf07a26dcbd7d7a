"""HTTP/2 to upstreams beside the gateway's own client, which speaks HTTP/1.1: what each costs.

    pip install --target FOLDER h2==4.4.1        # not a library of this project
    PYTHONPATH=FOLDER python -m loadtests.http2

`client.py` is the client that the gateway would have: `h2` on the loop's own TLS, its responses
poured into the same sinks. `upstream.py` speaks both protocols. The figures of 2026-11-22 are in
`ops/measurements.md`.
"""
