"""Messages that join the history of a task have rows of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("joined", "joined_applied"):
        op.add_column("tasks", sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "joined",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.BigInteger()),
        sa.PrimaryKeyConstraint("task", "number"),
        sqlite_with_rowid=False,
    )
