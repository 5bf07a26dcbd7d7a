"""Attacks on real processes, each a script that anyone can run and that prints what it found.

They start everything they need by themselves and use the helpers of `tests/support`, so they are
run from a checkout:

python -m loadtests.attacks.connections     a thousand hostile connections of each kind
python -m loadtests.attacks.frozen_process  a process that stands still, and is declared dead
python -m loadtests.attacks.kills           a gateway killed a hundred times under load
python -m loadtests.attacks.large_bodies    large bodies of every hostile shape, hostile framing
python -m loadtests.attacks.overload        three times the load that can be served
python -m loadtests.attacks.pause           a database that stands still under load
python -m loadtests.attacks.rolling_restart a process takes another's or an earlier one's place
"""
