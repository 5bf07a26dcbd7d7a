"""Agents: a persona, a model and knowledge bases that the keys of an organisation speak for.

`store.py` is their table; `policy.py` (which model, and who may not) and `frame.py` (pages as a
message) are pure; `retrieval.py` finds the pages. What a request becomes of it is
`channels/dialects/chat/instructed.py`, the call itself `gw/api/chat/agent_call.py`.
"""
