"""The `shanjian` dialect: avatars and what they say, clips by template, cloned voices.

`envelope.py` is what every answer comes in, `bodies.py` what is sent, `tasks.py` the submits and
polls, `catalog.py` the lists, `dialect.py` all of it under the names that every dialect has.
"""
