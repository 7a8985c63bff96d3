"""All dimensions."""

from __future__ import annotations

from benchmarks.scale import fronts, hosted, kept, sdk, servers

ROWS = (*hosted.ROWS, *servers.ROWS, *kept.ROWS, *fronts.ROWS, *sdk.ROWS)
