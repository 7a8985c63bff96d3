"""Runs migrations on the connection of `upgrading`. Alembic executes this file; it is never imported."""

from alembic import context
from sqlalchemy import text

from a2a_bridge.stores.sql.schema import metadata

#: key of an advisory lock, so that two programs do not run the same migration; an arbitrary number
_LOCK = 4_120_716

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    context.run_migrations()
