"""From one chat protocol to another, through one model in the middle (spec: Translation paths).

`model.py` is that model; each protocol has a codec that decodes its wire into it and encodes
it again: requests, whole responses, streams. A translation is one protocol's decoder and another's
encoder; `paths.py` names those there are. What a target cannot say is reported, never silently
lost.
"""
