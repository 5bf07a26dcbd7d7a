"""The reference: a bare proxy on the gateway's stack, what a call costs before it is a gateway's.

`python -m loadtests.bench.reference` serves POST /v1/chat/completions through one Tornado
application. Of a gateway's work it has only what nobody on this stack could leave out: the body is
decoded, a mailbox is asked before and told after (where money would be), three metrics and one
span that is not sampled. No key, no database, no log, no time-outs, no limits.

It is independent of `gw` on purpose: a change of the gateway must not move what it is compared
with. `server.py` is its HTTP server, `client.py` its way to the upstream.
"""
