"""How much is leased for which demand, of a balance and of a budget's node alike."""

from __future__ import annotations

# A lease covers the demand of so many seconds: longer than a pause of the database that calls
# should not notice.
LEASE_SECONDS = 8.0
# Time constant of the decay of demand.
DEMAND_SECONDS = 4.0
# A lease for fewer holds is not worth its statement and what it withholds from others.
HOLDS_MIN = 4
# The least that is requested, for an account or a node with occasional calls.
HOLDS_ASKED = 8
# After a refused lease, calls are held one by one.
REFUSED_SECONDS = 1.0
# What had no hold for so long returns its lease, and gets a new one only at its second call.
SILENT_SECONDS = 30.0
