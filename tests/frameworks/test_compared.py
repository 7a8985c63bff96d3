"""What `make frameworks` has recorded about servers and clients of frameworks, and the tables made from it."""

from importlib.metadata import version

from packaging.requirements import Requirement

from tests.docs.pages import DOCS, ROOT
from tests.frameworks import results
from tests.frameworks.compared import recorded
from tests.frameworks.programs import FRAMEWORKS, REMOTES


def test_each_server_and_each_client_is_recorded_with_its_pinned_release() -> None:
    found = recorded()
    assert found["a2a-sdk"] == version("a2a-sdk")
    assert set(found["servers"]) == {one.name for one in FRAMEWORKS}
    assert set(found["clients"]) == {one.name for one in REMOTES}
    for kind, rows in (("servers", FRAMEWORKS), ("clients", REMOTES)):
        for one in rows:
            told = found[kind][one.name]["packages"]
            pinned = {each.name: each.specifier for each in map(Requirement, one.packages)}
            assert told[one.package] in pinned[one.package], one.name


def test_what_fails_through_this_project_is_known() -> None:
    found = recorded()
    failed = {
        (kind, name, where)
        for kind in ("servers", "clients")
        for name, told in found[kind].items()
        for where in ("gateway", "serve")
        if any(told.get(where, {}).values())
    }
    assert failed == {
        ("clients", one.name, where) for one in REMOTES if one.lacks for where in ("gateway", "serve")
    }


def test_pages_have_the_tables_of_what_is_recorded() -> None:
    reference = (DOCS / "reference" / "frameworks.md").read_text("utf-8")
    assert results.servers() in reference
    assert results.clients() in reference
    for page in (ROOT / "README.md", DOCS / "index.md"):
        assert results.short() in page.read_text("utf-8")
