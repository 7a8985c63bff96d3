"""The table for callers of 0.1 has limits, and errors mention evicted names."""

import pytest

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.identity import LegacyCallers
from a2a_bridge.gateway.identity_names import MOST_ARTIFACTS, IdentityTable, Name
from a2a_bridge.gateway.tasks import Tasks
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.identity_scene import Agent, get, send
from tests.rejections import rejected


async def test_the_names_used_least_recently_are_forgotten() -> None:
    agent = Agent()
    tasks = Tasks(most=2)
    service = LegacyCallers(agent, IdentityTable(tasks))
    await service.unary(send("a"))
    await service.unary(send("b"))
    await service.unary(get("a"))
    await service.unary(send("c"))
    assert len(tasks) == 2
    assert (await service.unary(get("a"))).id == "a"
    with pytest.raises(A2AError, match="oldest of more than 2"):
        await service.unary(get("b"))


async def test_a_message_with_a_forgotten_name_begins_another_task_in_the_same_session() -> None:
    agent = Agent()
    service = LegacyCallers(agent, IdentityTable(Tasks(most=1)))
    await service.unary(send("a", "s"))
    await service.unary(send("b", "s"))
    await service.unary(send("a", "s"))
    assert [task.context_id for task in agent.tasks.values()] == ["s", "s", "s"]


async def test_artifacts_count_beside_tasks() -> None:
    agent = Agent()
    tasks = Tasks(most_bytes=4000)
    service = LegacyCallers(agent, IdentityTable(tasks))
    await service.unary(send("a"))
    await service.unary(send("b"))
    assert len(tasks) == 2
    agent.tasks["T2"].artifacts.extend(hub.Artifact(artifact_id=f"a{number}") for number in range(30))
    await service.unary(get("b"))
    assert len(tasks) == 1
    with pytest.raises(A2AError):
        await service.unary(get("a"))


def test_a_table_forgets_sessions_too_and_one_name_may_move() -> None:
    tasks = Tasks(most=1)
    table, scope = IdentityTable(tasks), Scope()
    table.keep_session(scope, "s", "K1")
    table.keep_session(scope, "t", "K2")
    table.keep_session(scope, "u", "u")
    assert (table.context(scope, "s"), table.context(scope, "t")) == ("s", "K2")
    table.keep(scope, Name("c", "T1"))
    table.keep(scope, Name("c", "T2"))
    assert len(tasks) == 1
    assert (table.name_of(scope, "T1"), table.name_of(scope, "T2")) == ("T1", "c")


def test_a_task_with_too_many_artifacts_is_rejected_instead_of_filling_the_memory() -> None:
    name = Name("c", "T1")
    for number in range(MOST_ARTIFACTS):
        name.index(f"a{number}")
    assert name.index("a0") == 0
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        name.index("one more")


def test_names_count_with_their_bytes() -> None:
    tasks = Tasks(most_bytes=1 << 20)
    table = IdentityTable(tasks)
    for given in "abc":
        table.keep(Scope(), Name(given, f"{given}{'x' * 1024 * 200}"))
    assert table.find(Scope(), "c") is not None
    assert table.find(Scope(), "a") is None
    name = Name("d", "T")
    name.index("y" * 1024 * 1020)
    table.keep(Scope(), name)
    assert table.find(Scope(), "c") is None
    assert table.find(Scope(), "d") is name
    assert len(tasks) == 1


def test_a_task_may_have_several_names_and_its_names_go_with_it() -> None:
    tasks = Tasks(most=2)
    table = IdentityTable(tasks)
    scope = Scope("", "ann")
    for given in ("x", "T1"):
        table.keep(scope, Name(given, "T1"))
    assert [table.find(scope, given) is not None for given in ("x", "T1")] == [True, True]
    assert (table.name_of(scope, "T1"), table.name_of(Scope("", "bob"), "T1")) == ("T1", "T1")
    assert table.find(Scope("", "bob"), "x") is None
    tasks.keep_context(scope, "T2", "c")
    tasks.keep_context(scope, "T3", "c")
    assert [table.find(scope, given) for given in ("x", "T1")] == [None, None]
    table.keep(scope, Name("x", "T4"))
    assert table.name_of(scope, "T4") == "x"
