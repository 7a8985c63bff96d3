"""Shapes of agents of Strands: messages, tools, structured output, hooks, middleware."""

import itertools
import json
from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from comparing import WITHHELD, Answer, Shape, main
from pydantic import BaseModel
from strands import Agent, tool
from strands.hooks import AfterModelCallEvent, BeforeInvocationEvent, MessageAddedEvent
from strands.models import Model

NUMBERS = itertools.count(1)

#: texts, and the names and arguments of tools
Said = str | tuple[str, dict[str, Any]]


class Scripted(Model):
    """Gives one response after the other."""

    def __init__(self, responses: Sequence[Sequence[Said]]) -> None:
        self.responses = list(responses)

    def update_config(self, **_: Any) -> None:
        """There is no configuration."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this model writes text only")

    async def stream(self, *_: Any, **__: Any) -> AsyncIterable[dict[str, Any]]:
        said = self.responses.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        for one in said:
            if isinstance(one, str):
                yield {"contentBlockStart": {"start": {}}}
                for word in one.partition(" "):
                    yield {"contentBlockDelta": {"delta": {"text": word}}}
            else:
                use = {"toolUseId": f"use-{next(NUMBERS)}", "name": one[0]}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(one[1])}}}}
            yield {"contentBlockStop": {}}
        calls = any(not isinstance(one, str) for one in said)
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


@tool
def look(place: str) -> dict[str, Any]:
    """Looks."""
    picture = {"format": "png", "source": {"bytes": place.encode()}}
    return {"status": "success", "content": [{"text": f"seen {place}"}, {"image": picture}]}


class City(BaseModel):
    city: str


def again(event: AfterModelCallEvent) -> None:
    """Discards a response that has what is withheld, as long as there is another one."""
    if event.stop_response and WITHHELD in str(event.stop_response.message) and event.agent.model.responses:
        event.retry = True


def mask(event: MessageAddedEvent) -> None:
    """Takes the address out of messages."""
    for block in event.message["content"]:
        if "text" in block:
            block["text"] = block["text"].replace(WITHHELD, "nobody")


def refuse(event: BeforeInvocationEvent) -> None:
    """Stops every turn."""
    event.cancel = "not today"


def crash(event: AfterModelCallEvent) -> None:
    """Fails after the first response."""
    raise RuntimeError("a secret of the framework")


HOOKS: dict[str, Sequence[Callable[..., None]]] = {
    "no hook": (),
    "a hook that discards": (again,),
    "a hook that masks": (mask,),
    "a hook that refuses": (refuse,),
    "a hook that fails": (crash,),
}
LOOK: Said = ("look", {"place": "x"})
RESPONSES: dict[str, Sequence[Sequence[Said]]] = {
    "a message": [["sunny in Oslo"]],
    "two blocks": [["first one", "and another"]],
    "no text": [[""]],
    "a message and a tool": [["let me see", LOOK], ["it is sunny"]],
    "two tools": [[LOOK, LOOK], ["seen both", LOOK], ["all is well"]],
    "what is withheld": [[f"write to {WITHHELD} now"], ["write to nobody at all"]],
    "withheld, then a tool": [[f"ask {WITHHELD}", LOOK], ["it is sunny"], ["never said"]],
    "no response": [],
}


def agent(said: str, hooks: str) -> Any:
    return Agent(
        model=Scripted(RESPONSES[said]), tools=[look], hooks=list(HOOKS[hooks]), callback_handler=None
    )


def structured(before: Sequence[Said]) -> Any:
    responses = [[*before, ("City", {"city": "Oslo"})]]
    return Agent(model=Scripted(responses), structured_output_model=City, callback_handler=None)


async def plain(agent: Any) -> Answer:
    files: list[bytes] = []
    async for event in agent.stream_async("go"):
        result = event.get("result")
        for block in (event.get("message") or {}).get("content", ()):
            made = block.get("toolResult", {}).get("content", ())
            files += [one["image"]["source"]["bytes"] for one in made if "image" in one]
    if result.structured_output is not None:
        return Answer("", tuple(files))
    # Each block of the text ends with a line feed.
    return Answer(str(result).removesuffix("\n"), tuple(files))


def shapes() -> Iterator[tuple[str, Shape]]:
    for said, hooks in product(RESPONSES, HOOKS):
        if said.startswith("withheld") and hooks == "no hook":
            continue  # nothing withholds it
        yield f"{said}, {hooks}", Shape(partial(agent, said, hooks), plain)
        own = {"agent_factory": lambda _, said=said, hooks=hooks: agent(said, hooks)}
        yield f"{said}, {hooks}, an agent of its own", Shape(partial(agent, said, hooks), plain, own)
    for before in ([], ["let me see"]):
        yield f"structured output after {before}", Shape(partial(structured, before), plain)


if __name__ == "__main__":
    main(dict(shapes()))
