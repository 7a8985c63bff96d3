"""The time limit of every wait in the tests."""

from __future__ import annotations

#: Seconds. It only bounds a hang: no test passes because it is over, and it is long enough for a machine with
#: a load of 30.
PATIENCE = 240.0
