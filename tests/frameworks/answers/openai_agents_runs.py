"""Shapes of agents of the OpenAI Agents SDK: messages, tools, handoffs, outputs, guardrails."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    Model,
    ModelResponse,
    OutputGuardrail,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from comparing import WITHHELD, Answer, Shape, main
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from pydantic import BaseModel

set_tracing_disabled(True)
NUMBERS = itertools.count(1)

#: texts, and the names of tools
Said = str | tuple[str]


class Scripted(Model):
    """Gives one response after the other."""

    def __init__(self, responses: Sequence[Sequence[Said]], *, streams: bool = True) -> None:
        self._responses, self._streams = list(responses), streams

    def _next(self) -> list[Any]:
        made: list[Any] = []
        for one in self._responses.pop(0):
            number = next(NUMBERS)
            if isinstance(one, str):
                content = [ResponseOutputText(type="output_text", text=one, annotations=[])]
                made.append(
                    ResponseOutputMessage(
                        id=f"message-{number}",
                        type="message",
                        role="assistant",
                        status="completed",
                        content=content,
                    )
                )
            else:
                arguments = json.dumps({} if one[0].startswith("transfer") else {"place": "x"})
                made.append(
                    ResponseFunctionToolCall(
                        name=one[0], arguments=arguments, call_id=f"call-{number}", type="function_call"
                    )
                )
        return made

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:
        return ModelResponse(output=self._next(), usage=Usage(), response_id=None)

    async def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        output = self._next()
        for place, one in enumerate(output):
            if not self._streams or not isinstance(one, ResponseOutputMessage):
                continue
            for word in one.content[0].text.partition(" "):  # type: ignore[union-attr]
                yield ResponseTextDeltaEvent(
                    type="response.output_text.delta",
                    item_id=one.id,
                    output_index=place,
                    content_index=0,
                    delta=word,
                    logprobs=[],
                    sequence_number=0,
                )
                await asyncio.sleep(0)
        response = Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


@function_tool
def look(place: str) -> str:
    """Looks."""
    return f"seen {place}"


class City(BaseModel):
    city: str


def guard(kind: type, *, trips: bool, waits: int = 0) -> Any:
    async def check(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        for _ in range(waits):
            await asyncio.sleep(0)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=trips)

    return kind(guardrail_function=check, name="guard")


GUARDS: dict[str, Callable[[], dict[str, Any]]] = {
    "no guardrail": dict,
    "an output guardrail that passes": lambda: {"output_guardrails": [guard(OutputGuardrail, trips=False)]},
    "an output guardrail that trips": lambda: {"output_guardrails": [guard(OutputGuardrail, trips=True)]},
    "an input guardrail that passes": lambda: {
        "input_guardrails": [guard(InputGuardrail, trips=False, waits=9)]
    },
    "an input guardrail that trips": lambda: {
        "input_guardrails": [guard(InputGuardrail, trips=True, waits=9)]
    },
}
RESPONSES: dict[str, Sequence[Sequence[Said]]] = {
    "a message": [[f"write to {WITHHELD} now"]],
    "two messages": [["first one", f"write to {WITHHELD} now"]],
    "a message and a tool": [["let me see", ("look",)], [f"write to {WITHHELD} now"]],
    "two tools": [[("look",), ("look",)], ["seen both", ("look",)], [f"write to {WITHHELD} now"]],
}


def agent(said: str, guards: str, *, streams: bool, stops: bool) -> Any:
    return Agent(
        "scripted",
        model=Scripted(RESPONSES[said], streams=streams),
        tools=[look],
        tool_use_behavior="stop_on_first_tool" if stops else "run_llm_again",
        **GUARDS[guards](),
    )


def handing_over(before: str, guards: str, output_type: Any) -> Any:
    text = json.dumps({"city": "Oslo"}) if output_type else f"write to {WITHHELD} now"
    second = Agent("second", model=Scripted([[text]]), output_type=output_type, **GUARDS[guards]())
    calls: list[Said] = [("transfer_to_second",)]
    return Agent("first", model=Scripted([[*([before] if before else []), *calls]]), handoffs=[second])


async def plain(agent: Any) -> Answer:
    output = (await Runner.run(agent, "go")).final_output
    return Answer(output if isinstance(output, str) else "")


def shapes() -> Iterator[tuple[str, Shape]]:
    for said, guards, streams, stops in product(RESPONSES, GUARDS, (True, False), (True, False)):
        name = f"{said}, {guards}, streams={streams}, stops={stops}"
        yield name, Shape(partial(agent, said, guards, streams=streams, stops=stops), plain)
    for before, guards, output_type in product(("", "I hand over"), GUARDS, (None, City)):
        if not guards.startswith("an input"):  # those of the first agent count only
            name = f"a handoff after {before!r}, {guards}, {output_type}"
            yield name, Shape(partial(handing_over, before, guards, output_type), plain)


if __name__ == "__main__":
    main(dict(shapes()))
