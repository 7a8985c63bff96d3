"""The steps by which a database comes to have the tables of `schema`. Alembic takes them; `a2a-bridge db
upgrade` asks for it.

To add one: change `schema`, then write `versions/NNNN_what.py` by hand. A test compares the two on both
databases.
"""
