"""All dimensions."""

from __future__ import annotations

from benchmarks.scale import fronts, hosted, kept, page, replicas, sdk, servers

ROWS = (
    *hosted.ROWS,
    *servers.ROWS,
    *kept.ROWS,
    *replicas.ROWS,
    *page.ROWS,
    *fronts.ROWS,
    *sdk.ROWS,
)
