"""Work on large bodies in processes of their own, because it would hold up the event loop.

`channels/json.py` decides which bodies those are, `jobs.py` what is done with them there (and with
ordinary ones in the loop), `process.py` is one such process and `pool.py` the few that there are.
"""

from __future__ import annotations
