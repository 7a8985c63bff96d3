import copy
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from crewai.core.providers.human_input import PROVIDER
from crewai.streams import Stream


@dataclass
class Task:
    description: str = "{message}"
    id: str = "t"
    guardrail: Any = None
    guardrails: Any = None
    human_input: bool = False
    output_json: Any = None
    output_pydantic: Any = None


@dataclass
class CrewOutput:
    raw: str
    json_dict: Any = None
    pydantic: Any = None


class Context:
    """What a provider of human input gets."""

    ask_for_human_input = True

    def __init__(self, *, threads: bool) -> None:
        self.messages: list[str] = []
        self.threads = threads

    def _format_feedback_message(self, feedback: str) -> str:
        return feedback

    def _invoke_loop(self) -> Any:
        assert self.threads
        return SimpleNamespace(output=f"changed: {self.messages[-1]}")

    async def _ainvoke_loop(self) -> Any:
        assert not self.threads
        return SimpleNamespace(output=f"changed: {self.messages[-1]}")


@dataclass
class Crew:
    name: str = "crew"
    tasks: list[Task] = field(default_factory=lambda: [Task()])
    agents: list[Any] = field(default_factory=list)
    after_kickoff_callbacks: list[Any] = field(default_factory=list)
    json_dict: Any = None
    pydantic: Any = None
    stream: bool = False
    #: True for a crew that asks in a thread
    threads: bool = False
    #: texts of the result by what the model has said
    outputs: dict[str, str] = field(default_factory=dict)
    runs: int = 0

    def copy(self) -> "Crew":
        return copy.deepcopy(self)

    def fetch_inputs(self) -> set[str]:
        return {name for task in self.tasks for name in re.findall(r"\{(.+?)}", task.description)}

    async def akickoff(self, inputs: dict[str, Any]) -> Stream:
        assert self.stream
        assert not self.runs, "a crew that was used"
        self.runs += 1
        return Stream(self._run(inputs))

    async def _run(self, inputs: dict[str, Any]) -> Any:
        for task in self.tasks:
            said = task.description
            for name in re.findall(r"\{(\w+)}", said):
                said = said.replace(f"{{{name}}}", str(inputs[name]))
            for word in said.partition(" "):
                kind = SimpleNamespace(value="text")
                yield SimpleNamespace(chunk_type=kind, task_id=task.id, content=word)
            if task.human_input:
                context, provider = Context(threads=self.threads), PROVIDER.get()
                assert provider.setup_messages(context) is False
                provider.post_setup_messages(context)
                answer = SimpleNamespace(output=said)
                if self.threads:
                    said = provider.handle_feedback(answer, context).output
                else:
                    said = (await provider.handle_feedback_async(answer, context)).output
                assert not context.ask_for_human_input
        if "fail" in said:
            raise RuntimeError("a secret of the framework")
        yield (CrewOutput(self.outputs.get(said, said), self.json_dict, self.pydantic),)
