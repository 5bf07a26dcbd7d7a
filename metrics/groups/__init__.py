"""Groups of metrics with a noun of their own; `Metrics` (`prometheus.py`) has one of each."""
