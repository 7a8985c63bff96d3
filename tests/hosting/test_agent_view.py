"""Content that dialects carry in messages is kept and returned, and agents do not see it."""

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from a2a_bridge import agent, interface, serve
from a2a_bridge.cards import resolve
from a2a_bridge.codec import decoder, encoder
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import data_part
from a2a_bridge.core.resume import offers_resume
from a2a_bridge.dialects.unmapped import KEY, present, strip_copy, write
from a2a_bridge.ext import DialOptions, http_fetch
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.hosting.agent_content import for_agent
from a2a_bridge.hosting.executor import Event
from a2a_bridge.hosting.hosted_agent import ExtendedCard
from a2a_bridge.hosting.parameters import SCHEMA_URI
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.scene import ALICE, COMPLETED, INPUT, WORKING, Talk, agent_of
from tests.rejections import rejected

RESIDUE = write("kind", [["/x", None, 1]])


def carrying(text: str = "x", *, own: bool = False, **members: Any) -> hub.SendMessageRequest:
    """A request with preserved content in every possible place; `own`: beside metadata of the user."""
    message = hub.Message(message_id=text, role=hub.ROLE_USER, parts=[hub.Part(text=text)], **members)
    request = hub.SendMessageRequest(message=message)
    for unit in (request, request.message, request.message.parts[0]):
        unit.metadata[KEY] = RESIDUE
        if own:
            unit.metadata["own"] = "y"
    return request


def residues(message: Any) -> int:
    return message.SerializeToString().count(KEY.encode())


@each("text", ["x", "x" * 10_000])
@each("place", [[], [0], [1], [2], [0, 1, 2]])
def test_residues_are_found_wherever_they_are(place: list[int], text: str) -> None:
    request = carrying(text)
    units: list[Any] = [request, request.message, request.message.parts[0]]
    for number, unit in enumerate(units):
        if number not in place:
            unit.ClearField("metadata")
    seen = for_agent(request)
    assert (seen is request) is not place
    assert not present(seen)
    assert residues(request) == len(place)


def test_metadata_of_the_user_stays() -> None:
    seen = for_agent(carrying(own=True))
    assert isinstance(seen, hub.SendMessageRequest)
    assert (
        dict(seen.metadata)
        == dict(seen.message.metadata)
        == dict(seen.message.parts[0].metadata)
        == {"own": "y"}
    )


def test_unknown_members_are_not_seen_either() -> None:
    part = {"text": "x", "later": 1}
    tree = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part], "later": 2}, "later": 3}
    request = decoder(hub.SendMessageRequest, keeps=True)(tree)
    seen = for_agent(request)
    assert seen.SerializeToString() == decoder(hub.SendMessageRequest)(tree).SerializeToString()
    assert encoder(hub.SendMessageRequest, keeps=True)(request) == tree


async def test_a_task_keeps_carried_content_that_its_agent_does_not_see() -> None:
    seen: list[Any] = []

    async def execute(run: Run) -> AsyncIterator[Event]:
        seen.extend((run.request, run.message, run.task or hub.Task(), *run.history))
        yield run.status("working" if run.task is None else "completed", *run.parts)
        if run.task is None:
            yield run.status("input-required")

    async def cancel(run: Run) -> AsyncIterator[Event]:
        seen.extend((run.request, run.task))
        yield run.status("canceled")

    talk = Talk(agent_of(execute, cancel))
    response = await talk.client.send_message(carrying("first"))
    task_id = response.task.id
    assert (response.task.status.state, residues(response.task.history[0])) == (INPUT, 2)
    follow_up = carrying("second", task_id=task_id)
    task = (await talk.client.send_message(follow_up)).task
    assert task.status.state == COMPLETED
    assert [residues(one) for one in task.history if one.role == hub.ROLE_USER] == [2, 2]
    assert residues(await talk.get(task_id)) == 4
    other = (await talk.client.send_message(carrying("third"))).task
    cancelling = hub.CancelTaskRequest(id=other.id)
    cancelling.metadata[KEY] = RESIDUE
    await talk.client.cancel_task(cancelling, CallContext())
    assert len(seen) == 4 + 6 + 4 + 2
    assert not any(present(one) for one in seen)


async def test_an_agent_that_gives_its_callers_message_back_loses_nothing() -> None:
    async def execute(run: Run) -> AsyncIterator[Event]:
        task = run.start()
        task.history.append(run.message)
        yield task
        yield run.status(WORKING)
        yield run.status(COMPLETED)

    task = (await Talk(agent_of(execute)).client.send_message(carrying())).task
    assert (len(task.history), residues(task.history[0])) == (1, 2)


async def test_a_direct_answer_is_given_without_it() -> None:
    @agent
    async def echo(run: Run) -> hub.Message:
        assert not present(run.request)
        return run.reply(*run.parts)

    response = await Talk(echo).client.send_message(carrying())
    assert response.message.parts[0] == strip_copy(carrying().message.parts[0])


# --- The engine enforces the declarations of the card: streaming, the extended card ---

EXTENDED = hub.AgentCard(name="extended", capabilities=hub.AgentCapabilities(streaming=True))


@pytest.mark.parametrize("agent", [ScriptedAgent, EchoAgent])
async def test_an_agent_that_does_not_stream_rejects_streams(agent: type[EchoAgent]) -> None:
    talk = Talk(agent(streaming=False))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.stream("task")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        async for _ in talk.subscribe("none"):
            pass
    await talk.send("task")


async def test_an_undeclared_capability_is_absent() -> None:
    talk = Talk(ScriptedAgent(card=hub.AgentCard(name="bare")))
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.stream("task")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.client.get_extended_agent_card()


async def test_no_extended_card_is_unsupported() -> None:
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await Talk(ScriptedAgent()).client.get_extended_agent_card()


async def test_an_extended_card_that_is_promised_but_missing() -> None:
    card = hub.AgentCard(name="x", capabilities=hub.AgentCapabilities(extended_agent_card=True))
    with rejected(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED):
        await Talk(ScriptedAgent(card=card)).client.get_extended_agent_card()


def made(context: CallContext) -> hub.AgentCard:
    card = hub.AgentCard(name="extended", description=context.principal.name if context.principal else "")
    card.capabilities.streaming = True
    return card


async def made_slowly(context: CallContext) -> hub.AgentCard:
    return made(context)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_a_function_of_the_extended_card_does_not_end_the_server(error: type[BaseException]) -> None:
    def leaving(_: CallContext) -> hub.AgentCard:
        raise error("a secret of the agent")

    with pytest.raises(
        RuntimeError, match=f"raised {error.__name__}"
    ):  # which bindings answer as INTERNAL_ERROR
        await Talk(ScriptedAgent(extended_card=leaving)).client.get_extended_agent_card()


@pytest.mark.parametrize("extended", [EXTENDED, made, made_slowly])
async def test_the_extended_card_is_given(extended: ExtendedCard) -> None:
    agent = ScriptedAgent(extended_card=extended)
    assert agent.card.capabilities.extended_agent_card
    card = await Talk(agent).client.get_extended_agent_card(None, ALICE)
    assert card.name == "extended"
    assert offers_resume(card)
    if extended is not EXTENDED:
        assert card.description == "alice"
    card.name = "changed"
    assert EXTENDED.name == "extended"


# --- @agent on functions with typed parameters, and on methods ---
class Order(BaseModel):
    item: str
    counts: list[int] = Field(default=[1])
    day: date | None = None


@dataclass
class Point:
    x: int


@agent
async def shop(order: Order) -> str:
    """Takes orders."""
    return f"{type(order).__name__} {order.item} {order.counts} {order.day!r}"


def data(*values: Any) -> list[hub.Part]:
    return [hub.Part(text="see below"), *map(data_part, values)]


async def test_a_model_is_read_from_the_data_part() -> None:
    answer = await Talk(shop).send(parts=data({"item": "tea", "counts": [2, 3], "day": "2025-01-31"}))
    assert answer.parts[0].text == "Order tea [2, 3] datetime.date(2025, 1, 31)"


@pytest.mark.parametrize("kind", ["direct", "task", "generator"])
async def test_a_message_that_does_not_fit_is_rejected_before_any_task(kind: str) -> None:
    async def generator(order: Order) -> AsyncIterator[str]:
        yield order.item

    async def function(order: Order) -> str:
        return order.item

    made = agent(generator) if kind == "generator" else agent(task=kind == "task")(function)
    for parts, fields in (
        (data({"counts": [1, "x"]}), ["message.parts[1].data.item", "message.parts[1].data.counts[1]"]),
        (data([]), ["message.parts[1].data"]),
        (data(), ["message.parts"]),
        (data({"item": "a"}, {"item": "b"}), ["message.parts"]),
    ):
        with pytest.raises(A2AError) as caught:
            await Talk(made).send(parts=parts)
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == fields
        assert fields[0] in str(caught.value)


@each(
    ("annotation", "given", "seen"),
    [
        (Point, {"x": 7}, "Point(x=7)"),
        (int, 7, "7"),
        (list[int], [7], "[7]"),
        (dict[str, Any], {"a": None}, "{'a': None}"),
        (Literal["Run", "Stop"], "Run", "'Run'"),
        ("Point | None", None, "None"),
        (Annotated[int, Field(gt=6)], 7, "7"),
        ("Point | str", {"x": 7}, "Point(x=7)"),
    ],
)
async def test_types_of_parameters(annotation: Any, given: Any, seen: str) -> None:
    def function(value):  # type: ignore[no-untyped-def]
        return repr(value)

    function.__annotations__["value"] = annotation
    assert (await Talk(agent(function)).send(parts=data(given))).parts[0].text == seen


async def test_without_a_data_part_a_default_or_the_text_counts() -> None:
    @agent
    async def optional(order: Order = Order(item="default")) -> str:  # noqa: B008
        return order.item

    @agent
    async def either(given: Order | str) -> str:
        return given if isinstance(given, str) else given.item

    assert (await Talk(optional).send("x")).parts[0].text == "default"
    assert (await Talk(either).send("x")).parts[0].text == "x"
    for made in (optional, either):
        assert (await Talk(made).send(parts=data({"item": "tea"}))).parts[0].text == "tea"


async def test_the_schema_is_in_the_card_of_every_version() -> None:
    (extension,) = shop.card.capabilities.extensions
    assert (extension.uri, extension.required) == (SCHEMA_URI, False)
    schema = extension.params["schema"]
    assert schema["required"] == ["item"]
    assert schema["properties"]["counts"]["items"]["type"] == "integer"
    assert list(shop.card.default_input_modes) == ["application/json"]
    for version in ("1.0", "0.3"):
        async with (
            serve(shop, [interface("JSONRPC", version=version)]) as server,
            http_fetch(DialOptions()) as fetch,
        ):
            card = await resolve(f"http://{server.http}", fetch)
            assert extension in list(card.capabilities.extensions)


async def test_extensions_of_the_decorator_stay() -> None:
    own = hub.AgentExtension(uri="urn:own")

    @agent(extensions=[own], input_modes=["text/plain", "application/json"])
    async def both(order: Order | str) -> str:
        return str(order)

    assert [one.uri for one in both.card.capabilities.extensions] == ["urn:own", SCHEMA_URI]
    assert list(both.card.default_input_modes) == ["text/plain", "application/json"]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (hub.Message, "write `run: Run`"),
        (dict[str, Run], "write `run: Run`"),
        (bytes, "JSON has no bytes; write `run: Run`"),
        ("Runner | str", "'Runner | str' of 'value' cannot be resolved"),
    ],
)
def test_a_type_that_no_message_has_is_rejected(annotation: Any, text: str) -> None:
    def function(value):  # type: ignore[no-untyped-def]
        return value

    function.__annotations__["value"] = annotation
    with pytest.raises(TypeError, match=text):
        agent(function)


def test_a_required_keyword_is_more_than_the_message() -> None:
    async def function(*, text: str) -> str:
        return text

    with pytest.raises(TypeError, match="more than the message"):
        agent(function)


class Desk:
    """Answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @agent(description="By method")
    async def answer(self, text: str) -> str:
        return f"{self.name} {text}"

    @agent
    async def order(self, order: Order) -> AsyncIterator[str]:
        yield f"{self.name} {order.item}"

    async def plain(self, text: str) -> str:
        """Is bound later."""
        return f"{self.name} {text}"

    async def __call__(self, text: str) -> AsyncIterator[str]:
        yield f"{self.name} "
        yield text


async def test_a_method_is_an_agent_of_each_instance() -> None:
    left, right = Desk("left"), Desk("right")
    for desk in (left, right, left):
        made: Any = desk.answer
        assert isinstance(made, Agent)
        assert made is desk.answer
        assert (made.card.name, made.card.description) == ("answer", "By method")
        assert (await Talk(made).send("x")).parts[0].text == f"{desk.name} x"
        order: Any = desk.order
        assert len(order.card.capabilities.extensions) == 1
        task = await Talk(order).send(parts=data({"item": "tea"}))
        assert task.artifacts[0].parts[0].text == f"{desk.name} tea"


async def test_a_bound_method_a_partial_and_a_callable_object_are_agents() -> None:
    async def named(name: str, text: str) -> str:
        """Has a name."""
        return f"{name} {text}"

    bound, partial, called = agent(Desk("a").plain), agent(functools.partial(named, "a")), agent(Desk("a"))
    assert [(one.card.name, one.card.description) for one in (bound, partial)] == [
        ("plain", "Is bound later."),
        ("named", "Has a name."),
    ]
    assert called.card.description == "Answers with its name."
    for made in (bound, partial):
        assert (await Talk(made).send("x")).parts[0].text == "a x"
    assert [part.text for part in (await Talk(called).send("x")).artifacts[0].parts] == ["a ", "x"]
