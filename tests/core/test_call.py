"""Call contexts: extensions, derivation, and the one member that is shared."""

import copy
import pickle
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Protocol

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    Call,
    CallContext,
    Joined,
    Principal,
    ResponseParameters,
    entries_of,
)
from a2a_bridge.core.errors import Blame, Reason
from a2a_bridge.core.kinds import lacks, require
from a2a_bridge.core.paging import EndlessListError, each_page
from a2a_bridge.core.service import Events, Middleware, Service, compose
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding


@pytest.mark.parametrize(
    ("declared", "expected"),
    [(None, ()), ("", ()), (" , ,", ()), ("a", ("a",)), ("a,b", ("a", "b")), (" b , a ,b", ("b", "a"))],
)
def test_extensions_are_read_in_order_and_once(declared: str | None, expected: tuple[str, ...]) -> None:
    parameters = {} if declared is None else {EXTENSIONS_PARAMETER: declared}
    assert CallContext(parameters=parameters).extensions == expected


def test_a_derived_context_shares_the_reply() -> None:
    context = CallContext(tenant="a", parameters={"x": "1"})
    derived = context.replace(principal=Principal("p"))
    derived.reply["y"] = "2"
    assert (derived.tenant, derived.parameters, context.principal) == ("a", {"x": "1"}, None)
    assert (context.reply, context.replace(reply=ResponseParameters()).reply) == ({"y": "2"}, {})


def test_contexts_do_not_share_a_reply_by_accident() -> None:
    CallContext().reply["x"] = "1"
    assert CallContext().reply == {}


def test_contexts_have_no_other_members() -> None:
    with pytest.raises(AttributeError):
        CallContext().usr = "x"


def test_a_parameter_of_several_entries_is_their_text_and_remembers_them() -> None:
    joined = Joined(("a", "b, c"))
    assert (joined, entries_of(joined)) == ("a,b, c", ("a", "b, c"))
    assert entries_of("a,b") == ("a,b",)
    for copied in (copy.deepcopy(joined), pickle.loads(pickle.dumps(joined))):
        assert (copied, entries_of(copied)) == (joined, ("a", "b, c"))
    assert CallContext(parameters={"a2a-extensions": joined}).extensions == ("a", "b", "c")


# --- compose: the first listed middleware acts first on the way in, and last on the way out ---

CALL: Call[Any, Any] = Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())
MESSAGES = [hub.StreamResponse(task=hub.Task(id=name)) for name in "ab"]


def marking(name: str, notes: list[str]) -> Middleware:
    class Marking:
        def __init__(self, service: Service) -> None:
            self._service = service

        async def unary(self, call: Call[Any, Any], /) -> Any:
            notes.append(f"{name} in")
            answer = await self._service.unary(call)
            notes.append(f"{name} out")
            return answer

        async def stream(self, call: Call[Any, Any], /) -> Events:
            notes.append(f"{name} in")
            async for event in self._service.stream(call):
                yield event
            notes.append(f"{name} out")

    return Marking


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_first_listed_acts_first(streaming: bool) -> None:
    notes: list[str] = []
    probe = Probe()
    probe.on_unary = answering("answer")
    probe.on_stream = yielding(*MESSAGES)
    service = compose(probe, marking("one", notes), marking("two", notes))
    if streaming:
        assert [event.message async for event in service.stream(CALL)] == MESSAGES
    else:
        assert await service.unary(CALL) == "answer"
    assert notes == ["one in", "two in", "two out", "one out"]
    assert probe.calls == [CALL]


def test_nothing_composed_is_the_service_itself() -> None:
    probe = Probe()
    assert compose(probe) is probe


# --- What an object lacks of a protocol ---
class Inner(Protocol):
    def ask(self) -> int: ...


class Outer(Protocol):
    durable: bool
    inner: Inner

    def get(self) -> int: ...

    async def put(self) -> None: ...


class Asks:
    def ask(self) -> int:
        return 1


class Whole(Outer):
    def __init__(self) -> None:
        self.durable = False
        self.inner = Asks()
        self.put = self.get  # type: ignore[assignment]  # an attribute of the object counts

    def get(self) -> int:
        return 1


def test_a_whole_object_is_accepted() -> None:
    require(Whole(), Outer)


def test_all_missing_members_are_named() -> None:
    class Bare:
        inner = object()

    with pytest.raises(TypeError, match=r"^Bare is no Outer: it lacks durable, inner\.ask, get, put$"):
        require(Bare(), Outer)


def test_a_method_of_the_protocol_itself_counts_as_missing() -> None:
    class Inherits(Outer):
        def get(self) -> int:
            return 1

    assert lacks(Inherits(), Outer, "put")
    assert not lacks(Inherits(), Outer, "get")


# --- The pages of a list: all of them, and none of a list without an end ---
class Agent:
    """Lists of tasks. following: the token after a token."""

    def __init__(self, following: Callable[[str], str]) -> None:
        self.following = following
        self.asked: list[str] = []

    async def ask(self, request: hub.ListTasksRequest) -> hub.ListTasksResponse:
        self.asked.append(request.page_token)
        return hub.ListTasksResponse(next_page_token=self.following(request.page_token))


async def read(agent: Agent, most: int, token: str = "") -> hub.ListTasksRequest:
    request = hub.ListTasksRequest(page_token=token, context_id="c")
    async with aclosing(each_page(agent.ask, request, most)) as pages:
        async for _ in pages:
            pass
    return request


async def test_every_page_and_the_request_stays() -> None:
    agent = Agent({"": "b", "b": "c", "c": ""}.__getitem__)
    assert (await read(agent, 3)).page_token == ""
    assert agent.asked == ["", "b", "c"]


@pytest.mark.parametrize(
    ("following", "asked", "token"),
    [
        (lambda token: f"{token}x", 5, "xxxxx"),  # always another page
        (lambda _: "same", 2, ""),
        (lambda token: {"": "a", "a": "b", "b": "a"}[token], 3, ""),
    ],
)
async def test_a_list_without_an_end(following: Callable[[str], str], asked: int, token: str) -> None:
    agent = Agent(following)
    with pytest.raises(EndlessListError) as caught:
        await read(agent, 5)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
    assert (len(agent.asked), caught.value.token) == (asked, token)


async def test_the_first_token_counts() -> None:
    agent = Agent(lambda _: "b")
    with pytest.raises(EndlessListError):
        await read(agent, 5, "b")
    assert agent.asked == ["b"]
