"""An agent behind fronts: it counts the turns of a context, asks, gives files, and works until it is released."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_bridge.app.runtime import serve_agent
from a2a_bridge.cards import interface
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.messages import data_part, raw_part, text_part
from a2a_bridge.hosting import Agent, AgentExecutor, Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)

#: binding and version of the agents behind fronts
FORMS = (("GRPC", "1.0"), ("JSONRPC", "0.3"))


class Desk(AgentExecutor):
    """`turn`: says how many messages of this context it has seen. `ask QUESTION`, `auth`: waits, and says then what
    it was told. `files`: text, a link, an image, a document, and data; `data`: data alone; `relative`: a link without a host. `work`: works until `released`; `chatter`: and says what it does,
    without a pause. A task that waits can `work` and `fail`, too. `fail`, `reject`, `crash`: ends badly; `break`: after a part of the answer; `refuse`: without a task. `direct`: answers with a message. Anything else: `TEXT!`, in two chunks.
    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.parts: list[hub.Part] = []
        self.parameters: list[dict[str, str]] = []
        self.working = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        self.seen[run.context_id] += 1
        self.parts = list(run.parts)
        self.parameters.append(dict(run.context.parameters))
        if run.task is not None:
            yield run.status("working")
            if run.text == "fail":
                yield run.status("failed", _said(run, "failed"))
                return
            if run.text == "work":
                self.working.set()
                await self._work()
            yield run.artifact(f"you said {run.text}", artifact_id="second")
            yield run.status("completed")
            return
        verb, _, rest = run.text.partition(" ")
        if verb == "refuse":
            raise A2AError(Reason.INVALID_PARAMS, "not now")
        if verb == "direct":
            yield hub.Message(
                message_id=f"re-{run.message.message_id}", role=hub.ROLE_AGENT, parts=[text_part(rest)]
            )
            return
        yield run.start()
        yield run.status("working", _said(run, "looking"))
        if verb == "turn":
            yield run.artifact(f"turn {self.seen[run.context_id]}")
        elif verb == "ask":
            yield run.artifact("so far", artifact_id="first")
            yield run.status("input-required", _said(run, rest or "which one?"))
            return
        elif verb == "auth":
            yield run.status("auth-required", _said(run, "log in at https://login.example"))
            return
        elif verb == "files":
            yield run.artifact(
                [
                    text_part("here"),
                    hub.Part(url="https://files.example/a%20b.csv", media_type="text/csv"),
                    raw_part(PNG, filename="dot.png", media_type="image/png"),
                    raw_part(b"%PDF-", filename="a b.pdf", media_type="application/pdf"),
                    data_part({"degrees": 21}),
                ]
            )
        elif verb == "data":
            yield run.artifact([data_part({"degrees": 21})])
        elif verb == "relative":
            yield run.artifact([text_part("see"), hub.Part(url="/files/a.csv", media_type="text/csv")])
        elif verb == "work":
            self.working.set()
            await self._work()
            yield run.artifact("worked")
        elif verb == "chatter":
            number = 0
            while not self.released.is_set():
                number += 1
                yield run.status("working", _said(run, f"step {number}"))
        elif verb in ("fail", "reject"):
            yield run.status("failed" if verb == "fail" else "rejected", _said(run, f"{verb}ed"))
            return
        elif verb == "break":
            yield run.artifact("so far")
            yield run.status("failed", _said(run, "broken"))
            return
        elif verb == "crash":
            raise RuntimeError("a secret of the agent")
        else:
            yield run.artifact(run.text, artifact_id="echo")
            yield run.artifact("!", artifact_id="echo", append=True, last=True)
        yield run.status("completed")

    async def _work(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def _said(run: Run, text: str) -> hub.Message:
    return hub.Message(
        message_id=f"{run.message.message_id} {text}", role=hub.ROLE_AGENT, parts=[text_part(text)]
    )


#: an agent, and its card
At = tuple[Desk, hub.AgentCard]

SKILLS = [
    hub.AgentSkill(id="ask desk", name="Ask the desk", description="Answers", tags=["x"], examples=["turn"]),
    hub.AgentSkill(id="ask_desk", name="Twin", description="The same", tags=["x"]),
]


@asynccontextmanager
async def serving(desk: Desk, binding: str, version: str, **members: Any) -> AsyncIterator[hub.AgentCard]:
    """The card of an agent that is served over one binding in one version. members: of the agent."""
    agent = Agent(desk, name="desk", description="The front desk", skills=SKILLS, **members)
    async with serve_agent(agent, [interface(binding, version=version)]) as server:
        yield server.card
