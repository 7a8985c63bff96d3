"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "own_postgres", "postgres"]

# No test is judged by time, and what runs for a submission must not depend on chance.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "local")
