"""Tasks are counted among all of their scope and in buckets of one length, no longer by context."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "task_counts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("bucket", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stripe", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "bucket", "state", "stripe"),
        sqlite_with_rowid=False,
    )
    zero = sa.text("number = 0")
    op.create_index("task_counts_empty", "task_counts", ["number"], sqlite_where=zero, postgresql_where=zero)
    # Level 5 counted all tasks of a scope, level 2 those of 73 minutes.
    op.execute(
        "INSERT INTO task_counts (tenant, owner, bucket, state, stripe, number)"
        " SELECT tenant, owner, CASE level WHEN 5 THEN -9223372036854775807 - 1 ELSE bucket END,"
        " state, stripe, number"
        " FROM counts WHERE context = '' AND level IN (2, 5)"
    )
    op.drop_table("counts")
