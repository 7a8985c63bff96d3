"""The name, the description and the version of what is served: of flags, of the object itself, or of its file."""

import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.cli.server_flags import ServeFlags
from a2a_bridge.cli.server_options import AgentPlanner
from a2a_bridge.hosting import adapters
from a2a_bridge.testing.each import each

FILE = '''
from a2a_bridge import Agent, agent

@agent
async def desk(text: str) -> str:
    """Keeps the desk."""
    return text

class Thing: ...
thing, own = Thing(), Thing()
own.name = "own"
bare = Agent.of(desk, name="bare", description="bare")
async def make(): return thing
'''


class ThingAdapter:
    """As the adapters of frameworks: an object may have no name."""

    def recognises(self, thing: Any) -> bool:
        return type(thing).__name__ == "Thing"

    def agent_of(self, thing: Any, **options: Any) -> Any:
        from a2a_bridge import agent

        name = options.pop("name", "") or getattr(thing, "name", "")
        made = agent(
            name=name or "agent", description=options.pop("description", name or "agent"), **options
        )(lambda text: text)
        made.is_named = bool(name)
        return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "support.py").write_text(FILE)
    (tmp_path / "front-desk").mkdir()
    (tmp_path / "front-desk" / "agent.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(adapters, "_adapters", lambda: {"thing": ThingAdapter()})
    return tmp_path


@each(
    "target, flags, name, expected",
    [
        ("support.py:desk", {}, "", ("desk", "Keeps the desk.", "1.0.0", "desk")),
        ("support.py:desk", {"name": "front", "version": "2"}, "", ("front", "Keeps the desk.", "2", "desk")),
        ("support.py:desk", {"description": "Helps."}, "table", ("desk", "Helps.", "1.0.0", "desk")),
        ("support.py:own", {}, "table", ("own", "own", "1.0.0", "own")),
        ("support.py:thing", {}, "", ("support", "support", "1.0.0", "support")),
        ("support.py:thing", {}, "table", ("table", "table", "1.0.0", "table")),
        ("support.py:thing", {"name": "x", "description": "y"}, "table", ("x", "y", "1.0.0", "x")),
        ("support.py:make", {}, "", ("support", "support", "1.0.0", "support")),
        ("support.py:make", {"name": "x"}, "", ("x", "x", "1.0.0", "x")),
        ("front-desk/agent.py:thing", {}, "", ("front-desk", "front-desk", "1.0.0", "front-desk")),
    ],
)
async def test_the_card_has_the_name_that_is_given_or_known(
    folder: Path, target: str, flags: dict[str, str], name: str, expected: tuple[str, ...]
) -> None:
    async with AgentPlanner(ServeFlags(**flags)).load(target, name).opened() as (agent, options):
        card = agent.card
        assert (card.name, card.description, card.version, card.skills[0].id) == expected
        assert options.store == f"sqlite:///.a2a-bridge/{expected[0]}.db"
    assert (folder / ".a2a-bridge").is_dir()
