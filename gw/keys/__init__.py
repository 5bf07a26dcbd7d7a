"""API keys: their text, how they are kept secret, how they are stored, and who a request is.

`key_text.py` is the format, `secret.py` the hash and the sealing, `store.py` the table, `issue.py`
makes keys and `requests.py` those that were asked for, `cache.py` answers every request's question
and `last_use.py` notes the responses.
"""
