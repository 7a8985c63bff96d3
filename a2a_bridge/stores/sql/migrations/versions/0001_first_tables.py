"""The first tables: tasks, their logs, counters, sends, push, replicas."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: SQLite generates row numbers only for INTEGER columns
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "bodies",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task"),
    )
    op.create_table(
        "commands",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("asker", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("commands_of_holder", "commands", ["holder"])
    op.create_table(
        "counts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bucket", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stripe", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "context", "level", "bucket", "state", "stripe"),
        sqlite_with_rowid=False,
    )
    empty = sa.text("number = 0")
    op.create_index("counts_empty", "counts", ["number"], sqlite_where=empty, postgresql_where=empty)
    op.create_table(
        "outbox",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("due", sa.Float(), nullable=False),
        sa.Column("dead", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    dead, dead_1 = sa.text("dead"), sa.text("dead = 1")
    op.create_index("outbox_dead", "outbox", ["number"], sqlite_where=dead_1, postgresql_where=dead)
    op.create_index("outbox_lines", "outbox", ["task", "config", "number"])
    op.create_table(
        "push_configs",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("aside", sa.LargeBinary(), nullable=False),
        sa.Column("holder", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("task", "id"),
    )
    held = sa.text("holder <> ''")
    mail = "push_configs_with_mail"
    op.create_index(mail, "push_configs", ["holder"], sqlite_where=held, postgresql_where=held)
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "segments",
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task", "first"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sends",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "message"),
    )
    op.create_index("sends_by_age", "sends", ["created"])
    op.create_table(
        "settings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("applied", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("written", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tasks_held", "tasks", ["holder"], sqlite_where=held, postgresql_where=held)
    newest = sa.text("time DESC"), sa.text("id DESC")
    op.create_index("tasks_in_state", "tasks", ["tenant", "owner", "state", *newest])
    op.create_index("tasks_listed", "tasks", ["tenant", "owner", *newest])
    op.create_index("tasks_of_context", "tasks", ["tenant", "owner", "context", *newest])
