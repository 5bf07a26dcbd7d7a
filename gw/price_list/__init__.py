"""What models of other companies cost: a dated list of facts, and a configuration filled from it.

`reading.py` first (the list, as rows), then `offers.py` (what channels of a configuration could
serve), `writing.py` and `insertion.py` (how that gets into `gw.yaml`), `filling.py` (all together),
`comparison.py` (what another list would change). Nothing of this is known to a running gateway: it
reads prices from its configuration alone.
"""
