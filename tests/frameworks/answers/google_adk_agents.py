"""Shapes of agents of Google ADK: messages, tools, several agents, output schemas, callbacks, plugins."""

import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from comparing import WITHHELD, Answer, Shape, main
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import ToolContext
from google.adk.workflow import Workflow
from google.genai import types
from pydantic import BaseModel, PrivateAttr

#: texts, and the names of tools
Said = str | tuple[str]


class Scripted(BaseLlm):
    """Gives one response after the other."""

    _responses: list[Sequence[Said]] = PrivateAttr(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = []
        for one in self._responses.pop(0):
            if not isinstance(one, str):
                arguments = {"agent_name": "second"} if one[0].startswith("transfer") else {"place": "x"}
                parts.append(types.Part.from_function_call(name=one[0], args=arguments))
                continue
            parts.append(types.Part(text=one))
            for word in one.partition(" ") if stream else ():
                yield LlmResponse(content=_content(types.Part(text=word)), partial=True)
        yield LlmResponse(content=_content(*parts), partial=False if stream else None)


def _content(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=list(parts))


def says(*responses: Sequence[Said]) -> Scripted:
    made = Scripted(model="scripted")
    made._responses = list(responses)
    return made


def look(place: str) -> str:
    """Looks."""
    return f"seen {place}"


def fetch(place: str, tool_context: ToolContext) -> str:
    """Fetches, and its result is the answer."""
    tool_context.actions.skip_summarization = True
    return f"fetched {place}"


def measure(place: str, tool_context: ToolContext) -> dict[str, int]:
    """Measures, and its result is the answer."""
    tool_context.actions.skip_summarization = True
    return {"length": 3}


RESPONSES: dict[str, Sequence[Sequence[Said]]] = {
    "a message": [[f"write to {WITHHELD} now"]],
    "a message and a tool": [["let me see", ("look",)], [f"write to {WITHHELD} now"]],
    "two tools": [[("look",), ("look",)], ["seen both", ("look",)], [f"write to {WITHHELD} now"]],
    "a tool that ends the run": [["let me see", ("fetch",)]],
    "a tool with data that ends the run": [[("measure",)]],
}


def _redacted(response: LlmResponse) -> LlmResponse | None:
    parts = response.content.parts if response.content else None
    if response.partial or not parts or not any(part.text for part in parts):
        return None
    made = [
        types.Part(text=part.text.replace(WITHHELD, "[REDACTED]")) if part.text else part for part in parts
    ]
    return LlmResponse(content=_content(*made))


def redact(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
    return _redacted(llm_response)


def conclude(callback_context: Any) -> types.Content:
    return _content(types.Part(text="concluded"))


class Redacting(BasePlugin):
    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> Any:
        return _redacted(llm_response)


GUARDS: dict[str, dict[str, Any]] = {
    "no callback": {},
    "a callback after the model": {"after_model_callback": redact},
    "a callback after the agent": {"after_agent_callback": conclude},
}


def agent(said: str, guard: str) -> Any:
    return LlmAgent(
        name="scripted", model=says(*RESPONSES[said]), tools=[look, fetch, measure], **GUARDS[guard]
    )


def plugged(said: str) -> Any:
    return App(name="plugged", root_agent=agent(said, "no callback"), plugins=[Redacting(name="redacting")])


def several(kind: Callable[..., Any], **options: Any) -> Any:
    agents = [
        LlmAgent(name=name, model=says(*[[f"{name} says {turn}"] for turn in range(3)]))
        for name in ("first", "second")
    ]
    return kind(name="several", sub_agents=agents, **options)


def transferring(before: str) -> Any:
    second = LlmAgent(name="second", model=says(["the answer"]), description="Answers.")
    said: list[Said] = [*([before] if before else []), ("transfer_to_agent",)]
    return LlmAgent(name="first", model=says(said), sub_agents=[second])


class City(BaseModel):
    city: str


def structured(text: str) -> Any:
    return LlmAgent(name="structured", model=says([text]), output_schema=City)


def redacted(node_input: str) -> str:
    """A node of a Workflow."""
    return node_input.replace(WITHHELD, "[REDACTED]")


def begun(node_input: Any) -> str:
    """A node of a Workflow."""
    return "begun"


#: nodes of a Workflow, one after the other; True for an agent
WORKFLOWS: tuple[tuple[Any, ...], ...] = (
    (True,),
    (True, True),
    (True, redacted),
    (begun, True),
    (begun, redacted),
    (True, redacted, True),
)


def workflow(nodes: tuple[Any, ...]) -> Any:
    said = f"write to {WITHHELD} now"
    made = [
        LlmAgent(name=f"agent_{place}", model=says([said if redacted in nodes[place:] else "the answer"]))
        if one is True
        else one
        for place, one in enumerate(nodes)
    ]
    return Workflow(name="workflow", edges=[("START", *made)])


def runner_of(thing: Any) -> Any:
    if isinstance(thing, App):
        return InMemoryRunner(app=thing)
    return InMemoryRunner(app_name="plain", **{"node" if isinstance(thing, Workflow) else "agent": thing})


async def plain(thing: Any) -> Answer:
    """The final responses: of those in a row of one agent the last one, and those after the last node."""
    runner = runner_of(thing)
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="user")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    finals: list[tuple[str, str]] = []
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        if not event.is_final_response():
            continue
        if event.content is None:
            finals = [("", event.output)] if isinstance(event.output, str) else finals
            continue
        if finals and not finals[-1][0]:
            finals = []
        texts = [part.text for part in event.content.parts or () if part.text and not part.thought]
        results = [one.response.get("result", "") for one in event.get_function_responses() if one.response]
        if finals and finals[-1][0] == event.author:
            del finals[-1]
        finals.append((event.author, "".join([*texts, *results])))
    return Answer("".join(text for _, text in finals))


async def no_text(thing: Any) -> Answer:
    """Of an agent with structured output, which the task has as data."""
    await plain(thing)
    return Answer("")


def shapes() -> Iterator[tuple[str, Shape]]:
    for said, guard in product(RESPONSES, GUARDS):
        yield f"{said}, {guard}", Shape(partial(agent, said, guard), plain)
    for said in RESPONSES:
        yield f"{said}, a plugin", Shape(partial(plugged, said), plain)
    yield "a sequence", Shape(partial(several, SequentialAgent), plain)
    yield "a loop", Shape(partial(several, LoopAgent, max_iterations=3), plain)
    for nodes in WORKFLOWS:
        kinds = ", ".join("agent" if one is True else one.__name__ for one in nodes)
        yield f"a workflow of {kinds}", Shape(partial(workflow, nodes), plain)
    for before in ("", "I hand over"):
        yield f"a transfer after {before!r}", Shape(partial(transferring, before), plain)
    city = json.dumps({"city": "Oslo"})
    for text in (city, f"```json\n{city}\n```", f"```\n{city}\n```\n"):
        yield f"the output {text!r}", Shape(partial(structured, text), no_text)


if __name__ == "__main__":
    main(dict(shapes()))
