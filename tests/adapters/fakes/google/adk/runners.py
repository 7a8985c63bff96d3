"""Runners, with services in memory."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from google.adk.agents import confirmed
from google.adk.events import Event
from google.genai import types

NUMBERS = itertools.count(1)
#: the version of a saved file: texts and bytes, by name
FILES = {"table.csv": types.Part(inline_data=types.Blob(b"a,b\n", "text/csv"))}
#: the media types of saved files without content, which a service does not load
EMPTY = {"empty.csv": "text/csv"}


@dataclass
class ArtifactVersion:
    mime_type: str | None


@dataclass
class Session:
    events: list[Event] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)


class InMemorySessionService:
    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str, str], Session] = {}

    async def get_session(self, *, app_name: str, user_id: str, session_id: str) -> Session | None:
        return self.sessions.get((app_name, user_id, session_id))

    async def create_session(self, *, app_name: str, user_id: str, session_id: str) -> Session:
        return self.sessions.setdefault((app_name, user_id, session_id), Session())

    async def append_event(self, session: Session, event: Event) -> None:
        assert event.invocation_id
        session.events.append(event)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        del self.sessions[app_name, user_id, session_id]


class InMemoryArtifactService:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def load_artifact(self, *, filename: str, version: int, **place: str) -> types.Part | None:
        assert version == 0
        return FILES.get(filename)

    async def get_artifact_version(
        self, *, filename: str, version: int, **place: str
    ) -> ArtifactVersion | None:
        assert version == 0
        return ArtifactVersion(EMPTY[filename]) if filename in EMPTY else None

    async def list_artifact_keys(self, **place: str) -> list[str]:
        return ["table.csv", "user:kept.csv"]

    async def delete_artifact(self, *, filename: str, **place: str) -> None:
        self.deleted.append(filename)


class Runner:
    def __init__(
        self, *, app_name: str, agent: Any, session_service: Any, artifact_service: Any = None
    ) -> None:
        self.app_name, self.agent = app_name, agent
        self.session_service, self.artifact_service = session_service, artifact_service
        self.run_configs: list[Any] = []
        self.plugin_manager = SimpleNamespace(plugins=[])

    async def run_async(
        self, *, user_id: str, session_id: str, new_message: Any, state_delta: Any, run_config: Any
    ) -> AsyncIterator[Event]:
        self.run_configs.append(run_config)
        place = {"app_name": self.app_name, "user_id": user_id, "session_id": session_id}
        session = await self.session_service.get_session(**place)
        assert session is not None, "no session"
        session.state |= state_delta
        invocation_id = f"run-{next(NUMBERS)}"
        session.events.append(Event("user", new_message, invocation_id))
        responses = session.events[-1].get_function_responses()
        confirmations = [one for one in responses if one.name == "adk_request_confirmation"]
        if confirmations:
            session.events.append(confirmed(session.events, confirmations))
        async for event in self.agent.run(session.events, invocation_id):
            if not event.partial:
                session.events.append(event)
            yield event


class InMemoryRunner(Runner):
    def __init__(
        self, agent: Any = None, *, app: Any = None, node: Any = None, app_name: str = "app"
    ) -> None:
        super().__init__(
            app_name=app.name if app else app_name,
            agent=agent or node or app.root_agent,
            session_service=InMemorySessionService(),
            artifact_service=InMemoryArtifactService(),
        )
