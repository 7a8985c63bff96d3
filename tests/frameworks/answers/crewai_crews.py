"""Shapes of crews and flows of CrewAI: tasks, outputs, guardrails, results of flows."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

import crewai
from comparing import WITHHELD, Answer, Shape, main
from crewai import BaseLLM, Crew, Flow, Task
from crewai.flow import listen, start
from pydantic import BaseModel, Field


class City(BaseModel):
    city: str


class Scripted(BaseLLM):
    """Gives one response after the other, word by word."""

    responses: list[str] = Field(default_factory=list)

    async def acall(self, messages: Any, *_: Any, **named: Any) -> Any:
        return self.call(messages, **named)

    def call(self, messages: Any, *_: Any, **named: Any) -> Any:
        said = self.responses.pop(0)
        if said == "fail":
            raise RuntimeError("a secret of the framework")
        for word in said.partition(" "):
            self._emit_stream_chunk_event(
                word, from_task=named.get("from_task"), from_agent=named.get("from_agent"), response_id=said
            )
        return said


def safe(output: Any) -> tuple[bool, Any]:
    """A guardrail that rejects what is withheld."""
    return WITHHELD not in output.raw, output.raw if WITHHELD not in output.raw else "no addresses"


def shout(output: Any) -> tuple[bool, Any]:
    """A guardrail that changes the text."""
    return True, output.raw.upper().replace(WITHHELD.upper(), "NOBODY")


TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a guardrail that rejects": {"guardrail": safe, "guardrail_max_retries": 1},
    "a guardrail that changes": {"guardrail": shout},
    "JSON": {"output_json": City},
    "a model": {"output_pydantic": City},
}
SCRIPTS: dict[str, Sequence[str]] = {
    "a message": ["sunny in Oslo"],
    "what is withheld": [f"write to {WITHHELD} now", "write to nobody at all"],
    "an error": ["fail"],
    "a city": ['{"city": "Oslo"}'],
}


def crew(task: str, said: str, tasks: int = 1) -> Any:
    llm = Scripted(model="scripted", responses=[*["let me see"] * (tasks - 1), *SCRIPTS[said]])
    agent = crewai.Agent(role="clerk", goal="to answer", backstory="a clerk", llm=llm, max_retry_limit=0)
    made = [
        Task(description=f"{place}: {{message}}", expected_output="an answer", agent=agent)
        for place in range(tasks - 1)
    ]
    last = Task(description="{history} {message}", expected_output="an answer", agent=agent, **TASKS[task])
    return Crew(agents=[agent], tasks=[*made, last])


async def plain_crew(given: Any) -> Answer:
    output = await given.akickoff(inputs={"message": "go", "history": ""})
    return Answer("" if output.pydantic or output.json_dict else output.raw)


class Echo(Flow[dict[str, Any]]):
    """Gives the result of a second method."""

    result: Any = None

    @start()
    async def heard(self) -> Any:
        return self.state["message"]

    @listen(heard)
    def told(self, heard: Any) -> Any:
        if self.result == "fail":
            raise RuntimeError("a secret of the framework")
        if self.result == "crew":
            return crew("plain", "a message").kickoff(inputs={"message": heard, "history": ""})
        return f"{heard} {self.result}" if isinstance(self.result, str) else self.result


async def plain_flow(given: Any) -> Answer:
    output = await given.kickoff_async(inputs={"message": "go"})
    output = getattr(output, "raw", output)
    return Answer(output if isinstance(output, str) else "")


def shapes() -> Iterator[tuple[str, Shape]]:
    for task in TASKS:
        for said in SCRIPTS:
            if (said == "a city") != (task in ("JSON", "a model")) and said != "an error":
                continue
            if said == "what is withheld" and task == "plain":
                continue  # nothing withholds it
            for tasks in (1, 2):
                yield f"{said}, {task}, {tasks} tasks", Shape(partial(crew, task, said, tasks), plain_crew)
    for result in ("heard", "fail", "crew", None, {"a": 1}, ["a"], City(city="Oslo")):
        yield f"a flow with {result!r}", Shape(partial(Echo, result=result), plain_flow)


if __name__ == "__main__":
    main(dict(shapes()))
