"""The migrations that create the tables of `schema`. Alembic runs them; `a2a-bridge db upgrade` starts it. To
add one: change `schema`, then write `versions/NNNN_name.py` by hand. A test compares the two on both
databases.
"""
