"""Alembic runs inside the package: `db.migration.upgrade` hands it a connection."""

from alembic import context

from db.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
