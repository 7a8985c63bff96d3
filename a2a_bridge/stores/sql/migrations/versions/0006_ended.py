"""Ended tasks, and the last segments of their logs, have the time of their end, by which they expire."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: the numbers of the terminal states
_TERMINAL = "(3, 4, 5, 7)"


def upgrade() -> None:
    for table in ("tasks", "segments"):
        op.add_column(table, sa.Column("ended", sa.Float()))
    op.execute(f"UPDATE tasks SET ended = written WHERE state IN {_TERMINAL}")  # noqa: S608  a constant
    own = "FROM tasks WHERE tasks.id = task AND tasks.last = segments.last AND tasks.ended IS NOT NULL"
    op.execute(
        f"UPDATE segments SET ended = (SELECT tasks.ended {own}) WHERE EXISTS (SELECT 1 {own})"  # noqa: S608
    )
    ended = sa.text("ended IS NOT NULL")
    for table in ("tasks", "segments"):
        op.create_index(f"{table}_ended", table, ["ended"], sqlite_where=ended, postgresql_where=ended)
