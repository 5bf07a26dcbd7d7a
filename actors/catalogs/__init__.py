"""What media upstreams list for everybody: templates, preset avatars, preset voices.

- `memory.py`: replies that are remembered, and one question at a time for each.
- `catalogs.py`: what endpoints ask: one channel's reply, or all channels' together.
"""
