"""stream_compat(): the final event of 0.x streams, and requests of 0.x for push configs."""

from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, compose
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.annotation import (
    CLOSING,
    SNAPSHOT,
    annotate_final,
    read_final,
    synthesise,
    synthetic_kind,
)
from a2a_bridge.middleware import validate
from a2a_bridge.middleware.stream_compat import stream_compat
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.middleware.scene import ask, send, subscribe
from tests.rejections import rejected

OLD = Dialect("0.3", V1_0.card, {}, final_events=True)

WORKING = hub.TASK_STATE_WORKING
INPUT = hub.TASK_STATE_INPUT_REQUIRED
AUTH = hub.TASK_STATE_AUTH_REQUIRED
COMPLETED = hub.TASK_STATE_COMPLETED


def older(version: str = "0.3") -> CallContext:
    return CallContext(origin=Origin("JSONRPC", version))


def task(state: Any = WORKING) -> hub.StreamResponse:
    return hub.StreamResponse(
        task=hub.Task(
            id="t-1", context_id="c-1", status=hub.TaskStatus(state=state, message={"message_id": "m"})
        )
    )


def status(state: Any, *, final: bool | None = None) -> hub.StreamResponse:
    update = hub.TaskStatusUpdateEvent(task_id="t-1", context_id="c-1", status=hub.TaskStatus(state=state))
    if final is not None:
        annotate_final(update, final)
    return hub.StreamResponse(status_update=update)


def artifact() -> hub.StreamResponse:
    update = hub.TaskArtifactUpdateEvent(task_id="t-1", context_id="c-1", artifact={"artifact_id": "a"})
    return hub.StreamResponse(artifact_update=update)


MESSAGE = hub.StreamResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))


async def streamed(probe: Probe, *events: Any, call: Any = subscribe, version: str = "0.3") -> list[Any]:
    probe.on_stream = yielding(*events)
    found: list[Any] = await ask(stream_compat([V1_0, OLD])(probe), call(older(version)))
    return found


async def test_a_service_of_1_0_only_is_not_wrapped() -> None:
    probe = Probe()
    assert stream_compat([V1_0])(probe) is probe


@pytest.mark.parametrize("version", ["1.0", ""])
async def test_other_callers_get_unchanged_events(version: str) -> None:
    events = [status(COMPLETED), status(WORKING), artifact()]
    assert await streamed(Probe(), *events, version=version) == events


@pytest.mark.parametrize("end", [status(COMPLETED), status(INPUT), status(WORKING, final=True)])
async def test_nothing_follows_a_final_event(end: Any) -> None:
    probe = Probe()
    events = [task(), status(WORKING), status(AUTH), status(INPUT, final=False), artifact(), end]
    assert await streamed(probe, *events, artifact(), status(COMPLETED)) == events
    await probe.wait_running(0)


@pytest.mark.parametrize("rest", [[], [artifact()]])
async def test_a_terminal_status_is_final_even_if_it_does_not_say_so(rest: list[Any]) -> None:
    """Go 2 leaves `final` out over gRPC; its caller gets the end once."""
    silent = status(COMPLETED, final=False)
    seen = hub.StreamResponse.FromString(silent.SerializeToString())
    assert await streamed(Probe(), task(), silent, *rest) == [task(), status(COMPLETED)]
    assert silent == seen, "the event has other readers"


async def test_a_stream_without_a_final_event_gets_one() -> None:
    events = [task(), status(AUTH), artifact()]
    got = await streamed(Probe(), *events)
    assert (got[:3], len(got)) == (events, 4)
    made = got[3].status_update
    assert (made.task_id, made.context_id, made.status.state) == ("t-1", "c-1", AUTH)
    assert read_final(made) is True
    assert synthetic_kind(made) == CLOSING


async def test_a_task_that_has_ended_is_followed_by_its_status_as_the_final_event() -> None:
    got = await streamed(Probe(), task(COMPLETED))
    assert got[1].status_update.status == got[0].task.status
    assert read_final(got[1].status_update) is None  # the state shows it


async def test_the_status_is_asked_for_when_only_artifacts_came() -> None:
    probe = Probe()

    async def on_unary(call: Call[Any, Any]) -> Any:
        assert call.operation is ops.GET_TASK
        return task(COMPLETED).task

    probe.on_unary = on_unary
    got = await streamed(probe, artifact())
    assert got[1].status_update.status.state == COMPLETED


async def test_an_unknown_status_is_no_failure() -> None:
    probe = Probe()

    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    got = await streamed(probe, artifact())
    assert got[1].status_update.status.state == hub.TASK_STATE_UNSPECIFIED
    assert read_final(got[1].status_update) is True


@pytest.mark.parametrize("events", [[MESSAGE], []])
async def test_without_a_task_there_is_nothing_to_close(events: list[Any]) -> None:
    assert await streamed(Probe(), *events, call=send_stream) == events


async def test_a_snapshot_a_bridge_made_up_is_dropped_and_its_status_kept() -> None:
    snapshot = task()
    synthesise(snapshot.task, SNAPSHOT)
    got = await streamed(Probe(), snapshot, artifact(), call=send_stream)
    assert [one.WhichOneof("payload") for one in got] == ["artifact_update", "status_update"]
    assert got[1].status_update.status.state == WORKING
    # A subscription begins with it; otherwise earlier events would be lost.
    got = await streamed(Probe(), snapshot, artifact())
    assert [one.WhichOneof("payload") for one in got] == ["task", "artifact_update", "status_update"]


async def test_an_error_stays_the_end() -> None:
    with rejected(Reason.UNAVAILABLE):
        await streamed(Probe(), task(), A2AError(Reason.UNAVAILABLE))


def send_stream(context: CallContext) -> Call[Any, Any]:
    return Call(ops.SEND_STREAMING_MESSAGE, send().request, context)


class Configs:
    """An agent with push configs, `size` to a page."""

    def __init__(self, *ids: str, size: int = 100, lists: bool = True) -> None:
        self.ids, self._size, self._lists = ids, size, lists

    async def __call__(self, call: Call[Any, Any]) -> Any:
        if call.operation is ops.GET_PUSH_CONFIG:
            if call.request.id not in self.ids:
                raise A2AError(Reason.TASK_NOT_FOUND)
            return hub.TaskPushNotificationConfig(task_id="t-1", id=call.request.id, url="http://hook")
        assert call.operation is ops.LIST_PUSH_CONFIGS
        if not self._lists:
            raise A2AError(Reason.METHOD_NOT_FOUND)
        start = int(call.request.page_token or 0)
        size = call.request.page_size or self._size
        page = [
            hub.TaskPushNotificationConfig(task_id="t-1", id=one) for one in self.ids[start : start + size]
        ]
        token = str(start + size) if start + size < len(self.ids) else ""
        return hub.ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=token)


def agent(configs: Configs) -> Any:
    probe = Probe()
    probe.on_unary = configs
    return compose(probe, stream_compat([V1_0, OLD]), validate())


def getting(config_id: str = "", version: str = "0.3") -> Call[Any, Any]:
    request = hub.GetTaskPushNotificationConfigRequest(task_id="t-1", id=config_id)
    return Call(ops.GET_PUSH_CONFIG, request, older(version))


@pytest.mark.parametrize(
    ("configs", "found"), [(Configs("a", "b"), "a"), (Configs("t-1", lists=False), "t-1")]
)
async def test_getting_a_config_without_its_id(configs: Configs, found: str) -> None:
    assert (await ask(agent(configs), getting())).id == found
    assert (await ask(agent(configs), getting(configs.ids[-1]))).id == configs.ids[-1]


@pytest.mark.parametrize("configs", [Configs(), Configs("x", lists=False)])
async def test_there_is_no_config_to_get(configs: Configs) -> None:
    with rejected(Reason.TASK_NOT_FOUND):
        await ask(agent(configs), getting())


async def test_callers_of_1_0_have_to_say_the_id() -> None:
    with rejected(Reason.INVALID_PARAMS):
        await ask(agent(Configs("a")), getting(version="1.0"))


def listing(version: str = "0.3", **members: Any) -> Call[Any, Any]:
    request = hub.ListTaskPushNotificationConfigsRequest(task_id="t-1", **members)
    return Call(ops.LIST_PUSH_CONFIGS, request, older(version))


async def test_lists_of_configs_are_whole() -> None:
    ids = tuple(f"c{number}" for number in range(7))
    service = agent(Configs(*ids, size=3))
    got = await ask(service, listing())
    assert [one.id for one in got.configs] == list(ids)
    assert not got.next_page_token
    assert len((await ask(service, listing("1.0"))).configs) == 3
    assert len((await ask(service, listing(page_size=2))).configs) == 2


async def test_a_list_without_an_end_is_rejected() -> None:
    probe = Probe()
    probe.on_unary = answering(hub.ListTaskPushNotificationConfigsResponse(next_page_token="more"))  # noqa: S106
    with rejected(Reason.INVALID_AGENT_RESPONSE):
        await ask(stream_compat([OLD])(probe), listing())


@pytest.mark.parametrize("state", [WORKING, COMPLETED])
async def test_a_gap_in_the_middle_of_a_stream_becomes_updates(state: Any) -> None:
    """Clients of 0.x reject a second task in one stream."""
    snapshot = hub.Task(id="t-1", context_id="c", status=hub.TaskStatus(state=state))
    snapshot.artifacts.add(artifact_id="a").parts.add(text="all of it")
    probe = Probe()

    async def stream(_: Any) -> Any:
        yield Event(hub.StreamResponse(task=hub.Task(id="t-1", context_id="c")), "1")
        yield Event(hub.StreamResponse(task=snapshot), "2", gap=True)
        if state == WORKING:
            yield Event(status(COMPLETED), "3")

    probe.on_stream = stream
    request = hub.SendMessageRequest(message=hub.Message(message_id="m"))
    call: Call[Any, Any] = Call(ops.SEND_STREAMING_MESSAGE, request, older())
    async with aclosing(stream_compat([V1_0, OLD])(probe).stream(call)) as events:
        first, piece, *updates = [event async for event in events]
    assert first.id == "1"
    assert piece.message.artifact_update.artifact == snapshot.artifacts[0]
    assert not piece.message.artifact_update.append
    assert [(one.id, one.message.status_update.status.state) for one in updates] == (
        [("2", WORKING), ("3", COMPLETED)] if state == WORKING else [("2", COMPLETED)]
    )
