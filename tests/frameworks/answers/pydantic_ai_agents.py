"""Shapes of agents of Pydantic AI: messages, tools, outputs, validators, output functions, hooks."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from comparing import WITHHELD, Answer, Shape, main
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, TextOutput, ToolOutput
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

#: texts, and the names of tools
Said = str | tuple[str]


class City(BaseModel):
    city: str


def scripted(responses: Sequence[Sequence[Said]]) -> FunctionModel:
    left = list(responses)

    def arguments(name: str) -> str:
        return json.dumps({"place": "x"} if name == "look" else {"city": "Oslo"})

    def whole(messages: Any, info: AgentInfo) -> ModelResponse:
        parts = [
            TextPart(one) if isinstance(one, str) else ToolCallPart(one[0], arguments(one[0]))
            for one in left.pop(0)
        ]
        return ModelResponse(parts=parts)

    async def streamed(messages: Any, info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for place, one in enumerate(left.pop(0)):
            if isinstance(one, str):
                for word in one.partition(" "):
                    yield word
            else:
                yield {place: DeltaToolCall(one[0], arguments(one[0]), tool_call_id=f"call-{place}")}

    return FunctionModel(whole, stream_function=streamed)


RESPONSES: dict[str, Sequence[Sequence[Said]]] = {
    "a message": [[f"write to {WITHHELD} now"]],
    "a message and a tool": [["let me see", ("look",)], [f"write to {WITHHELD} now"]],
    "two tools": [[("look",), ("look",)], ["seen both", ("look",)], [f"write to {WITHHELD} now"]],
}


def upper(text: str) -> str:
    return text.replace(WITHHELD, "[REDACTED]").upper()


def words(text: str) -> list[str]:
    return text.replace(WITHHELD, "[REDACTED]").split()


OUTPUTS: dict[str, Any] = {
    "text": str,
    "an output function": TextOutput(upper),
    "an output function with data": TextOutput(words),
    "text or data": [str, City],
}


def redacting(agent: Agent[Any, Any]) -> None:
    @agent.output_validator
    def redact(output: Any) -> Any:
        return output.replace(WITHHELD, "[REDACTED]") if isinstance(output, str) else output


def rejecting(agent: Agent[Any, Any]) -> None:
    @agent.output_validator
    def reject(output: Any) -> Any:
        if WITHHELD in str(output):
            raise ModelRetry("without an address")
        return output


VALIDATORS: dict[str, Callable[[Agent[Any, Any]], None]] = {
    "no validator": lambda agent: None,
    "a validator that changes": redacting,
    "a validator that rejects": rejecting,
}


def agent(said: str, output: str, validator: str, further: Sequence[Sequence[Said]] = ()) -> Any:
    model = scripted([*RESPONSES[said], *further])
    made: Agent[Any, Any] = Agent(model, output_type=OUTPUTS[output], retries=1)
    VALIDATORS[validator](made)

    @made.tool_plain
    def look(place: str) -> str:
        return f"seen {place}"

    return made


async def _redacted(ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
    texts = [TextPart(one.content.replace(WITHHELD, "[REDACTED]")) for one in response.parts]  # type: ignore[union-attr]
    return ModelResponse(parts=texts)


def hooked() -> Any:
    return Agent(scripted(RESPONSES["a message"]), capabilities=[Hooks(after_model_request=_redacted)])


def structured(before: str) -> Any:
    said: Sequence[Said] = [*([before] if before else []), ("final_result",)]
    return Agent(scripted([said]), output_type=ToolOutput(City, name="final_result"))


async def plain(agent: Any) -> Answer:
    output = (await agent.run("go")).output
    return Answer(output if isinstance(output, str) else "")


def shapes() -> Iterator[tuple[str, Shape]]:
    for said, output, validator in product(RESPONSES, OUTPUTS, VALIDATORS):
        name = f"{said}, {output}, {validator}"
        yield name, Shape(partial(agent, said, output, validator), plain)
        further = [["nothing to see"]]
        yield f"{name}, tried again", Shape(partial(agent, said, output, validator, further), plain)
    yield "a hook", Shape(hooked, plain)
    for before in ("", "it is"):
        yield f"data after {before!r}", Shape(partial(structured, before), plain)


if __name__ == "__main__":
    main(dict(shapes()))
