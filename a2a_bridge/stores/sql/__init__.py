"""A store in SQLite or PostgreSQL, through SQLAlchemy Core."""
