from tests.stores.conftest import _postgres_template, _sqlite_template, postgres_url, sqlite_url

__all__ = ["_postgres_template", "_sqlite_template", "postgres_url", "sqlite_url"]
