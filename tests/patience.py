"""How long a test waits for what has to happen."""

from __future__ import annotations

#: Seconds. It only bounds a hang: no test passes because it is over, and a machine with a load of 30 is fast
#: enough.
PATIENCE = 240.0
