"""The index of contexts has the state, so that tasks of one context and state are counted in it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("tasks_of_context", "tasks")
    newest = sa.text("time DESC"), sa.text("id DESC")
    op.create_index("tasks_of_context", "tasks", ["tenant", "owner", "context", *newest, "state"])
