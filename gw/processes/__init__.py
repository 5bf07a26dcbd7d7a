"""`gw serve --processes N`: N gateways that share one port, kept running by one parent.

`fleet.py` starts, restarts, reloads and stops them; `worker.py` is one of them as the parent sees
it; `watch.py` kills one that hangs; `merge.py` makes one page of their metrics; `run.py` is the
parent from start to exit.
"""
