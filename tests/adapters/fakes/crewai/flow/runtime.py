import asyncio
from types import SimpleNamespace
from typing import Any

from crewai.flow.async_feedback import HumanFeedbackPending
from crewai.flow.flow_config import flow_config
from crewai.streams import Stream
from tests.frameworks.adapted.replies import Call, done, replies


class Flow:
    """Keeps the desk."""

    def __init__(
        self, *, name: str | None = None, persistence: Any = None, initial_state: Any = None
    ) -> None:
        self.name, self.persistence, self.initial_state = name, persistence, initial_state
        fields = ("name", "persistence", "initial_state")
        self.model_fields_set = {one for one in fields if getattr(self, one) is not None}
        # The copy of the framework: of the outermost level only.
        self.state: Any = {"users": []} if initial_state is None else dict(initial_state)
        self.runs = 0

    def astream(self, inputs: dict[str, Any]) -> Stream:
        assert not self.runs, "a flow that was used"
        self.runs += 1
        if self.persistence is not None:
            self.state = self.persistence.setdefault(inputs["id"], self.state)
        self.state |= inputs
        return Stream(self._run())

    def ask(self, message: str) -> str | None:
        try:
            found = flow_config.input_provider.request_input(message, self, metadata=None)
        except Exception:  # noqa: BLE001  as the framework does
            return None
        return str(found)

    async def _run(self) -> Any:
        newest = self.state["message"]
        self.state["users"].append(newest)
        match newest:
            case "feedback":
                context = SimpleNamespace(message="good?", method_output={"a": 1}, emit=["yes", "no"])
                yield (await asyncio.to_thread(flow_config.hitl_provider.request_feedback, context, self),)
                return
            case "pending":
                yield (HumanFeedbackPending(),)
                return
            case "nothing":
                yield (None,)
                return
        said, results = "", []
        async for one in replies(newest, self.state["users"]):
            if not isinstance(one, Call):
                said += one
                yield SimpleNamespace(type="llm_stream_chunk", content=one, data={"call_id": "1"})
            elif one.name == "question":
                results.append((one.name, await asyncio.to_thread(self.ask, one.arguments["text"])))
            else:
                agreed = self.ask(f"delete {one.arguments['path']}?")
                results.append((one.name, "deleted x" if agreed == "yes" else "denied"))
        yield (said or done(results),)
