"""GetTask and ListTasks: content, visibility, order and pages."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import Reason, closing_error
from a2a_bridge.core.messages import timestamp
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope
from tests.agents import ScriptedAgent
from tests.hosting.scene import (
    ALICE,
    BOB,
    COMPLETED,
    FAILED,
    IMMEDIATELY,
    INPUT,
    PATIENCE,
    WORKING,
    Gate,
    Talk,
    agent_of,
    gated,
)
from tests.rejections import rejected

NOON = 1_700_000_000_000_000_000


@pytest.fixture
def talk() -> Talk:
    return Talk(ScriptedAgent())


def dated() -> Any:
    """An agent whose tasks complete at the second in the message."""

    async def execute(run: Run) -> AsyncIterator[Event]:
        update = run.status("completed")
        update.status.timestamp.CopyFrom(timestamp(NOON + int(run.text) * 10**9))
        yield update

    return agent_of(execute)


def ids(page: hub.ListTasksResponse) -> list[str]:
    return [task.id for task in page.tasks]


@pytest.mark.parametrize(("length", "shown"), [(None, 5), (0, 0), (1, 1), (4, 4), (5, 5), (99, 5)])
async def test_the_newest_of_the_history_is_shown(length: int | None, shown: int) -> None:
    asked = {} if length is None else {"history_length": length}

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("input-required", f"about {run.text}")

    talk = Talk(agent_of(execute))
    task = await talk.send("0")
    for number in (1, 2):
        task = await talk.send(
            str(number),
            task_id=task.id,
            message_id=f"m{number}",
            configuration=hub.SendMessageConfiguration(**asked),
        )
    whole = ["m-1", None, "m1", None, "m2"]
    for found in (task, await talk.get(task.id, **asked), (await talk.list(**asked)).tasks[0]):
        assert len(found.history) == shown
        for one, expected in zip(found.history, whole[5 - shown :], strict=True):
            assert expected in (None, one.message_id)


@pytest.mark.parametrize("length", [-1, -5])
async def test_a_negative_history_length_is_rejected(talk: Talk, length: int) -> None:
    task = await talk.send("task")
    with rejected(Reason.INVALID_PARAMS, "historyLength"):
        await talk.get(task.id, history_length=length)
    with rejected(Reason.INVALID_PARAMS, "historyLength"):
        await talk.list(history_length=length)


async def test_returned_messages_can_be_changed_without_effect(talk: Talk) -> None:
    task = await talk.send("input")
    kept = await talk.get(task.id)
    for found in (task, await talk.get(task.id), (await talk.list()).tasks[0]):
        found.status.state = FAILED
        found.history.add(message_id="smuggled")
    assert await talk.get(task.id) == kept


async def test_a_live_task_is_shown_as_it_is_now() -> None:
    gate = Gate()

    async def execute(run: Run) -> AsyncIterator[Event]:
        yield run.status("working")
        yield run.artifact("half", artifact_id="a", last=False)
        await gate.wait()
        yield run.status("completed")

    talk = Talk(agent_of(execute))
    task = await talk.send("x", configuration=IMMEDIATELY)
    await gate.reached()
    for found in (await talk.get(task.id), (await talk.list(include_artifacts=True)).tasks[0]):
        assert (found.status.state, found.artifacts[0].parts[0].text) == (WORKING, "half")
    assert len((await talk.list()).tasks[0].artifacts) == 0
    found.artifacts[0].parts[0].text = "changed"
    assert (await talk.get(task.id)).artifacts[0].parts[0].text == "half"
    gate.open()
    await talk.close(grace=10)


@pytest.mark.parametrize(
    "context", [None, BOB, CallContext(tenant="t"), CallContext(tenant="t", principal=ALICE.principal)]
)
async def test_a_foreign_task_is_like_no_task(talk: Talk, context: CallContext | None) -> None:
    task = await talk.send("task", context=ALICE)
    errors = []
    for task_id in (task.id, "none"):
        with rejected(Reason.TASK_NOT_FOUND) as caught:
            await talk.get(task_id, context=context)
        errors.append(
            (caught.value.message, caught.value.metadata == {"taskId": task_id}, caught.value.violations)
        )
    assert errors[0] == errors[1]
    assert (await talk.list(context=context)).total_size == 0
    with rejected(Reason.TASK_NOT_FOUND):
        await talk.send("x", task_id=task.id, context=context)
    assert (await talk.get(task.id, context=ALICE)).id == task.id


async def test_the_tenant_of_the_request_counts_when_the_context_has_none(talk: Talk) -> None:
    task = await talk.send("task", tenant="t")
    assert (await talk.get(task.id, tenant="t")).id == task.id
    assert (await talk.get(task.id, context=CallContext(tenant="t"))).id == task.id
    with rejected(Reason.TASK_NOT_FOUND):
        await talk.get(task.id)


async def test_lists_are_empty_at_first(talk: Talk) -> None:
    assert await talk.list() == hub.ListTasksResponse()


async def test_lists_go_from_the_newest_status_to_the_oldest() -> None:
    talk = Talk(dated())
    made = {second: (await talk.send(str(second))).id for second in (3, 1, 2, 5, 4)}
    page = await talk.list()
    assert ids(page) == [made[second] for second in (5, 4, 3, 2, 1)]
    assert (page.total_size, page.next_page_token, page.page_size) == (5, "", 5)


async def test_equal_times_have_a_fixed_order() -> None:
    talk = Talk(dated())
    for _ in range(9):
        await talk.send("1")
    whole = ids(await talk.list())
    assert len(set(whole)) == 9
    found: list[str] = []
    token = ""
    while True:
        page = await talk.list(page_size=2, page_token=token)
        found += ids(page)
        token = page.next_page_token
        if not token:
            break
    assert found == whole


async def test_filters() -> None:
    talk = Talk(ScriptedAgent())
    done = [await talk.send("task", context_id=context) for context in ("a", "b", "a")]
    waiting = await talk.send("input", context_id="a")
    assert set(ids(await talk.list(context_id="a"))) == {done[0].id, done[2].id, waiting.id}
    assert ids(await talk.list(status=INPUT)) == [waiting.id]
    assert set(ids(await talk.list(status=COMPLETED, context_id="a"))) == {done[0].id, done[2].id}
    assert (await talk.list(context_id="c")).total_size == 0
    page = await talk.list(context_id="a", page_size=1)
    assert (page.total_size, len(page.tasks), page.page_size) == (3, 1, 1)


@pytest.mark.parametrize(("after", "expected"), [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0)])
async def test_the_time_filter_includes_its_time(after: int, expected: int) -> None:
    talk = Talk(dated())
    for second in (1, 2, 3):
        await talk.send(str(second))
    since = timestamp(NOON + after * 10**9)
    assert (await talk.list(status_timestamp_after=since)).total_size == expected


async def test_artifacts_are_listed_when_asked_for(talk: Talk) -> None:
    await talk.send("task x")
    for asked, count in (({}, 0), ({"include_artifacts": False}, 0), ({"include_artifacts": True}, 1)):
        (task,) = (await talk.list(**asked)).tasks
        assert len(task.artifacts) == count


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
async def test_page_sizes_are_bounded(talk: Talk, size: int) -> None:
    with rejected(Reason.INVALID_PARAMS, "pageSize"):
        await talk.list(page_size=size)


async def test_a_page_may_have_a_hundred(talk: Talk) -> None:
    for _ in range(101):
        await talk.send("fail")
    page = await talk.list(page_size=100)
    assert (len(page.tasks), page.total_size) == (100, 101)
    assert len((await talk.list()).tasks) == 50
    assert len((await talk.list(page_size=100, page_token=page.next_page_token)).tasks) == 1


@pytest.mark.parametrize("change", ["", "x", "first", "last", "cut"])
async def test_a_token_that_was_not_given_is_rejected(talk: Talk, change: str) -> None:
    for _ in range(3):
        await talk.send("fail")
    token = (await talk.list(page_size=1)).next_page_token
    other = "B" if token[0] == "A" else "A"
    bad = {
        "": "no token",
        "x": token + "x",
        "first": other + token[1:],
        "last": token[:-4] + other * 4,
        "cut": token[:-1],
    }[change]
    with rejected(Reason.INVALID_PARAMS, "pageToken"):
        await talk.list(page_size=1, page_token=bad)


async def test_a_token_is_good_for_its_own_query_and_caller_only(talk: Talk) -> None:
    for context in (ALICE, BOB):
        for _ in range(3):
            await talk.send("fail", context=context)
    token = (await talk.list(page_size=1, context=ALICE)).next_page_token
    for wrong in (
        {"context": BOB},
        {"context": ALICE, "status": FAILED},
        {"context": ALICE, "context_id": "c"},
    ):
        with rejected(Reason.INVALID_PARAMS, "pageToken"):
            await talk.list(page_size=1, page_token=token, **wrong)
    # The size of the page may change from one page to the next.
    assert len((await talk.list(page_size=2, page_token=token, context=ALICE)).tasks) == 2


async def test_an_unknown_state_is_rejected(talk: Talk) -> None:
    with rejected(Reason.INVALID_PARAMS, "status"):
        await talk.list(status=99)


async def test_a_reader_that_begins_after_the_end_of_the_engine_gets_its_error() -> None:
    gate = Gate()
    talk = Talk(gated(gate))
    task = await talk.send(configuration=IMMEDIATELY)
    await gate.reached()
    readers = talk.engine._readers
    readers.end(closing_error())
    for after, events in ((0, 2), (2, 0)):
        reading = readers.begin(Scope("", ""), task.id, after).events(None)
        with rejected(Reason.UNAVAILABLE):
            async with asyncio.timeout(PATIENCE):
                for _ in range(events):
                    await anext(reading)
                await anext(reading)
    assert len(readers) == 0
    await talk.close()
