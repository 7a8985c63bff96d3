"""Checksums of row contents. Existing rows have none, and are accepted unchecked."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("bodies", "segments", "sends", "push_configs", "outbox"):
        op.add_column(table, sa.Column("checksum", sa.BigInteger(), nullable=True))
