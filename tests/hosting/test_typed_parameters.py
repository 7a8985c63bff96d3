"""@agent on functions with typed parameters, and on methods."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from a2a_bridge import Run, interface, serve
from a2a_bridge.cards import resolve
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import data_part
from a2a_bridge.ext import DialOptions, http_fetch
from a2a_bridge.hosting import Agent, agent
from a2a_bridge.hosting.parameters import SCHEMA_URI
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.hosting.scene import Talk


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
