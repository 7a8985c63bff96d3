"""Runs steps on the connection that `upgrading` gives. Alembic executes this file; nobody imports it."""

from alembic import context
from sqlalchemy import text

from a2a_bridge.hosting.stores.sql.schema import metadata

#: of an advisory lock, so that two programs do not take the same step; any number will do
_LOCK = 4_120_716

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    context.run_migrations()
