"""Checksums of what rows hold. Rows that are there already have none, and are taken as they are."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("bodies", "segments", "sends", "push_configs", "outbox"):
        op.add_column(table, sa.Column("checksum", sa.BigInteger(), nullable=True))
