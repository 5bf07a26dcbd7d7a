"""The `shanjian` dialect: speaking avatars, clips by template, cloned voices.

`envelope.py` is the form of every response, `bodies.py` what is sent, `tasks.py` the submits and
polls, `catalog.py` the lists, `dialect.py` all of it under the names that every dialect has.
"""
