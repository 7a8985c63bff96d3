"""Google ADK: an executor that runs a root agent, an App or a Runner. Importing it imports ADK.

Rules:
1. A conversation is a session. Its name is the digest of the conversation's key, and its user is the caller.
2. The open calls of a conversation are the calls of long-running tools in its session without a result of the
   user. Therefore a question outlives the process with a durable session service.
3. A new turn gives results to the calls that an earlier turn left open, or was cancelled in: models reject a
   history with open calls.
4. With streaming, the last event of a message repeats the text of the partial ones.
5. The answer is the final responses of the agents: that of an agent replaces the one just before it, and the
   output of a node of a Workflow all before it. Text is held back if callbacks or nodes after the model may
   change it; then the model does not stream, as in a plain run.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event as AdkEvent
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.genai import types

from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import Answer, data_text, file_part, jsonable, media_type_of, url_part
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor
from a2a_bridge_adapters.questions import ABANDONED, DECISIONS, MAY_HAVE_RUN, Approval, OpenCall, ask

_CONFIRMATION = "adk_request_confirmation"
_CREDENTIAL = "adk_request_credential"
_INPUT = "adk_request_input"
#: the hint of tools with `require_confirmation`, which is for programs of ADK
_HINT = "Please approve or reject the tool call"

#: the result of a call that failed or was cancelled
_INTERRUPTED = "The call did not come to its end."

#: callbacks of agents and plugins that may change or replace the text of a model
_CALLBACKS = ("after_model_callback", "after_agent_callback")
#: a block of Markdown
_FENCED = re.compile(r"\s*```\w*\s*\n(.*)\n\s*```\s*", re.DOTALL)

#: names of callers that are the id of a user as they are; all others are digests, which have 64 digits
_PLAIN_NAME = re.compile(r"(?![0-9a-f]{64}\Z)[A-Za-z0-9_@-][A-Za-z0-9_.@-]{0,127}\Z")


class AdkExecutor(ConversationExecutor[None]):
    """Runs a root agent of Google ADK.

    thing: an agent, a Workflow, an App, or a Runner with services of its own. run_config: of the runner; with
    streaming by default, unless text is held back. stream: see ConversationExecutor. conversations: the
    sessions that are kept, unless the Runner is given. Raises TypeError for any other object.
    """

    def __init__(
        self,
        thing: Any,
        *,
        run_config: RunConfig | None = None,
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        given = isinstance(thing, Runner)
        self._runner = thing if given else runner_of(thing)
        #: sessions of conversations that are forgotten, and not deleted yet
        self._forgotten: list[ConversationKey] = []
        super().__init__(
            Conversations(conversations, None if given else self._forgotten.append), stream=stream
        )
        self._kept = not given
        self._structured = frozenset(structured_agents(self._runner.agent))
        self._guarded = is_guarded(self._runner)
        streams = not self._guarded if stream is None else stream
        mode = StreamingMode.SSE if streams else StreamingMode.NONE
        self._config = run_config or RunConfig(streaming_mode=mode)

    def read(self, run: Run) -> Any:
        return types.Content(role="user", parts=[content_of(part) for part in run.parts])

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:  # noqa: ARG002
        await self._forget()  # now: a later turn of any conversation would delete a session that goes on here
        session = await self._find(key)
        if session is None:
            return []
        return [call for one, _ in open_of(session.events) if (call := call_of(one)) is not None]

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        await self._forget()
        session = await self._session(key)
        for event in denials(session.events):
            await self._runner.session_service.append_event(session, event)
        async with aclosing(self._work(key, run, answer, given)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        session = await self._session(key)
        asked = [one for one in open_of(session.events) if str(one[0].id) in given]
        confirmed = [one for one in asked if one[0].name == _CONFIRMATION]
        if confirmed and len(confirmed) < len(asked):
            # ADK shows its models no event with an answer to a confirmation: other results would be lost.
            results = [one for one in asked if one not in confirmed]
            for event in _results(results, lambda one, _: _response(one, given[str(one.id)])):
                await self._runner.session_service.append_event(session, event)
            asked = confirmed
        parts = [_result(one, _response(one, given[str(one.id)])) for one, _ in asked]
        message = types.Content(role="user", parts=parts)
        async with aclosing(self._work(key, run, answer, message)) as events:
            async for event in events:
                yield event

    async def _work(
        self, key: ConversationKey, run: Run, answer: Answer, message: Any
    ) -> AsyncGenerator[Event, None]:
        """The events of one run of the agent, until it ends or asks."""
        spoken, output, problem = _Spoken(answer, self._structured, guarded=self._guarded), None, ""
        stream = self._runner.run_async(
            user_id=user_of(key),
            session_id=key.digest,
            new_message=message,
            state_delta={
                "a2a_user": key.principal,
                "a2a_tenant": key.tenant,
                "a2a_context_id": run.context_id,
                "a2a_task_id": run.task_id,
            },
            run_config=self._config,
        )
        async with aclosing(stream) as events:
            async for event in events:
                for made in spoken.events(event):
                    yield made
                if event.partial:
                    continue
                async for part in self._files(key, event):
                    yield answer.part(part)
                if text_in(event):
                    output = None
                elif event.output is not None:
                    # A node of a Workflow, which may have got the text of an agent.
                    output = event.output
                    spoken.finals.clear()
                problem = ""
                if event.error_code and not text_in(event):
                    problem = f"{event.error_code}: {event.error_message}"
        calls = await self._asked(key)
        if calls:
            yield ask(run, calls)
            return
        finals = [content for _, contents in spoken.finals for content in contents]
        finals += [] if output is None else [output]
        for made in answer.settle(*finals):
            yield made
        if problem:
            raise RuntimeError(f"the model gave an error: {problem}")
        yield run.status(hub.TASK_STATE_COMPLETED)

    async def _asked(self, key: ConversationKey) -> list[OpenCall]:
        """The calls that wait for the caller at the end of a turn."""
        session = await self._session(key)
        calls = []
        for one, _ in open_of(session.events):
            call = call_of(one)
            if call is None:
                # Its arguments have the secret of the client.
                raise RuntimeError("a tool asks for credentials of its user, which no caller can give here")
            calls.append(call)
        return calls

    async def _files(self, key: ConversationKey, event: Any) -> AsyncGenerator[hub.Part, None]:
        """The files in a message, and those that a tool has saved."""
        for part in event.content.parts or () if event.content else ():
            if made := file_of(part):
                yield made
        service = self._runner.artifact_service
        if service is None or event.author == "user":
            return
        for filename, version in event.actions.artifact_delta.items():
            place = {**self._place(key), "filename": filename, "version": version}
            found = await service.load_artifact(**place)
            if found is None:
                # Services load no empty file, but they know its version.
                known = await service.get_artifact_version(**place)
                if known is not None:
                    yield file_part(b"", known.mime_type or "", filename)
            elif made := file_of(found, filename):
                yield made

    def _place(self, key: ConversationKey) -> dict[str, str]:
        """The names of the session of a conversation."""
        return {"app_name": self._runner.app_name, "user_id": user_of(key), "session_id": key.digest}

    async def _find(self, key: ConversationKey) -> Any:
        """The session of a conversation; None if it is new or forgotten."""
        return await self._runner.session_service.get_session(**self._place(key))

    async def _session(self, key: ConversationKey) -> Any:
        """The session of a conversation, which is made if it is new."""
        if self._kept:
            self.conversations.keep(key, None)
        found = await self._find(key)
        return found or await self._runner.session_service.create_session(**self._place(key))

    async def _forget(self) -> None:
        """Deletes the sessions that are forgotten, with their files."""
        while self._forgotten:
            place = self._place(self._forgotten.pop())
            files = self._runner.artifact_service
            if files is not None:
                for filename in await files.list_artifact_keys(**place):
                    if not filename.startswith("user:"):
                        await files.delete_artifact(**place, filename=filename)
            await self._runner.session_service.delete_session(**place)


def runner_of(thing: Any) -> Any:
    """A runner with services in memory. Raises TypeError for an object that it cannot run."""
    if isinstance(thing, App):
        return InMemoryRunner(app=thing)
    if isinstance(thing, BaseAgent):
        return InMemoryRunner(agent=thing, app_name=thing.name)
    if hasattr(thing, "edges"):
        return InMemoryRunner(node=thing)
    raise TypeError(f"a {type(thing).__name__} is no agent, Workflow, App or Runner of Google ADK")


def user_of(key: ConversationKey) -> str:
    """The user id of a caller: the name, or a digest if there is a tenant or the name cannot be a path."""
    if not key.tenant and _PLAIN_NAME.match(key.principal):
        return key.principal
    return key._replace(context_id="").digest


class _Spoken:
    """The messages of the agents of a run, as they come. structured: the agents whose text is JSON."""

    def __init__(self, answer: Answer, structured: frozenset[str], *, guarded: bool) -> None:
        self._answer, self._structured, self._guarded = answer, structured, guarded
        #: the messages of each agent that have ended: several agents may speak at once
        self._ended: dict[str, int] = {}
        #: the contents of the final responses so far, each with its agent
        self.finals: list[tuple[str, list[Any]]] = []

    def events(self, event: Any) -> Iterator[Event]:
        """The events for an event of ADK."""
        author, text = event.author, text_in(event)
        streams = bool(text) and author not in self._structured
        if event.partial:
            if streams:
                name = str(self._ended.get(author, 0))
                yield from self._answer.text(name, text, author, guarded=self._guarded)
            return
        self._ended[author] = self._ended.get(author, 0) + 1
        is_final = event.is_final_response()
        if not (event.error_code or (event.content and event.content.parts)):
            # The text of a model that does not repeat it at the end of its message.
            text = self._answer.heard(author)
            streams = bool(text)
        if is_final and (contents := self._contents(event, text)):
            if self.finals and self.finals[-1][0] == author:
                del self.finals[-1]
            self.finals.append((author, contents))
        texts = [text] if is_final and streams else []
        yield from self._answer.keep(author, *texts, guarded=self._guarded)

    def _contents(self, event: Any, text: str) -> list[Any]:
        """The contents of a final response: text, structured output, or the results of tools."""
        if text:
            return [structured(text) if event.author in self._structured else text]
        if event.author == "user" or event.long_running_tool_ids:
            return []
        return [result_of(one.response) for one in event.get_function_responses()]


def structured(text: str) -> Any:
    """The JSON of a structured output, also in a block of Markdown; the text if it is none."""
    fenced = _FENCED.fullmatch(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except ValueError:
        return text


def result_of(response: Any) -> Any:
    """The result of a tool that ends its run. ADK puts all results but objects into the member `result`."""
    return response["result"] if isinstance(response, dict) and response.keys() == {"result"} else response


def is_guarded(runner: Any) -> bool:
    """True if callbacks, plugins or nodes after an agent may change or replace the text of a model."""
    plugins = getattr(getattr(runner, "plugin_manager", None), "plugins", ())
    nodes = list(nodes_of(runner.agent))
    edges = [edge for one in nodes for edge in getattr(getattr(one, "graph", None), "edges", ())]
    return (
        any(map(_changes_text, plugins))
        or any(getattr(one, name, None) for one in nodes for name in _CALLBACKS)
        or any(
            isinstance(one.from_node, BaseAgent) and not isinstance(one.to_node, BaseAgent) for one in edges
        )
    )


def _changes_text(plugin: Any) -> bool:
    """True for a plugin with such a callback that is not one of ADK for logs and traces."""
    kind = type(plugin)
    if kind.__module__.startswith("google.adk.plugins.") and "retry" not in kind.__module__:
        return False
    return any(
        getattr(kind, name, None) is not getattr(BasePlugin, name)
        for name in (*_CALLBACKS, "on_event_callback")
    )


def nodes_of(node: Any) -> Iterator[Any]:
    """A node and all nodes below it."""
    yield node
    graph = getattr(node, "graph", None)
    for one in (*getattr(node, "sub_agents", ()), *getattr(graph, "nodes", ())):
        yield from nodes_of(one)


def structured_agents(node: Any) -> Iterator[str]:
    """The names of the agents below a node whose output is JSON."""
    for one in nodes_of(node):
        if getattr(one, "output_schema", None) is not None and hasattr(one, "model"):
            yield one.name


def text_in(event: Any) -> str:
    """The text of an event of an agent, without its thoughts."""
    if event.content is None or event.author == "user":
        return ""
    return "".join(part.text for part in event.content.parts or () if part.text and not part.thought)


def content_of(part: hub.Part) -> Any:
    """A part as content of a message."""
    match part.WhichOneof("content"):
        case "text":
            return types.Part(text=part.text)
        case "data":
            return types.Part(text=data_text(part))
    media_type, name = media_type_of(part), part.filename or None
    if part.HasField("url"):
        place = types.FileData(file_uri=part.url, mime_type=media_type, display_name=name)
        return types.Part(file_data=place)
    return types.Part(inline_data=types.Blob(data=part.raw, mime_type=media_type, display_name=name))


def file_of(part: Any, filename: str = "") -> hub.Part | None:
    """A file in a message or of a tool; None for a part of another kind. filename: of a saved file."""
    if part.inline_data is not None:
        blob = part.inline_data
        return file_part(blob.data or b"", blob.mime_type or "", filename or blob.display_name or "")
    if part.file_data is not None:
        place = part.file_data
        return url_part(place.file_uri or "", place.mime_type or "", filename or place.display_name or "")
    if filename and part.text is not None:
        return file_part(part.text.encode(), "text/plain", filename)
    return None


def _calls_in(event: Any) -> Iterator[Any]:
    if event.author != "user" and not event.partial:
        yield from event.get_function_calls()


def open_of(events: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The calls of long-running tools that have no result of the user, each with its event."""
    found: dict[str, tuple[Any, Any]] = {}
    for event in events:
        waiting = event.long_running_tool_ids or ()
        for one in _calls_in(event):
            if one.id in waiting:
                found[one.id] = (one, event)
        if event.author == "user":
            for one in event.get_function_responses():
                found.pop(one.id, None)
    return list(found.values())


def denials(events: Sequence[Any]) -> list[Any]:
    """Events with a result for each call that has none: one event for the calls of one."""
    calls: dict[str, tuple[Any, Any]] = {}
    unanswered: dict[str, tuple[Any, Any]] = {}
    #: calls whose only result is that they need a confirmation, which the user has given since
    approved: dict[str, tuple[Any, Any]] = {}
    for event in events:
        for one in _calls_in(event):
            calls[one.id] = unanswered[one.id] = (one, event)
        for one in event.get_function_responses():
            unanswered.pop(one.id, None)
            approved.pop(one.id, None)
            if event.author == "user" and one.name == _CONFIRMATION and one.response.get("confirmed"):
                original = _original(calls[one.id][0]).get("id") if one.id in calls else None
                approved |= {original: calls[original]} if original in calls else {}
    unanswered |= {one.id: (one, event) for one, event in open_of(events)}
    unknown = _results(approved.values(), lambda *_: {"error": MAY_HAVE_RUN})
    return _results(unanswered.values(), _denial) + unknown


def _original(confirmation: Any) -> Mapping[str, Any]:
    """The call that a confirmation asks for."""
    return (confirmation.args or {}).get("originalFunctionCall") or {}


def _denial(call: Any, event: Any) -> dict[str, Any]:
    """The result of a call that nobody answers. event: the event of the call."""
    if call.name == _CONFIRMATION:
        return {"confirmed": False}
    waits = call.id in (event.long_running_tool_ids or ())
    return {"error": ABANDONED if waits else _INTERRUPTED}


def _results(
    calls: Iterable[tuple[Any, Any]], response: Callable[[Any, Any], Mapping[str, Any]]
) -> list[Any]:
    """Events of the user with results, one for the calls of one event. calls: each with its event."""
    made: dict[str, Any] = {}
    for one, event in calls:
        found = made.get(event.id)
        if found is None:
            content = types.Content(role="user", parts=[])
            found = made[event.id] = AdkEvent(
                author="user", invocation_id=event.invocation_id, branch=event.branch, content=content
            )
        found.content.parts.append(_result(one, response(one, event)))
    return list(made.values())


def call_of(call: Any) -> OpenCall | None:
    """An open call for the caller; None for a request for credentials."""
    arguments = call.args or {}
    if call.name == _CREDENTIAL:
        return None
    if call.name == _INPUT:
        return OpenCall(call.id, jsonable(arguments))
    if call.name != _CONFIRMATION:
        return OpenCall(call.id, jsonable(arguments), call.name)
    original = _original(call)
    asked = arguments.get("toolConfirmation") or {}
    hint, payload = str(asked.get("hint") or ""), asked.get("payload")
    return OpenCall(
        call.id,
        jsonable(original.get("args") or {} if payload is None else payload),
        str(original.get("name") or "a tool"),
        approval=True,
        decisions=DECISIONS if payload is not None else DECISIONS - {"edit"},
        hint="" if hint.startswith(_HINT) else hint,
    )


def _response(call: Any, value: Any) -> dict[str, Any]:
    """The answer of a caller as the result of a call."""
    if isinstance(value, Approval):
        asked = (call.args or {}).get("toolConfirmation") or {}
        payload = asked.get("payload") if value.arguments is None else value.arguments
        return {"confirmed": value.approved, **({} if payload is None else {"payload": payload})}
    return value if isinstance(value, dict) else {"result": value}


def _result(call: Any, response: Mapping[str, Any]) -> Any:
    return types.Part(
        function_response=types.FunctionResponse(id=call.id, name=call.name, response=dict(response))
    )


def members_of(thing: Any) -> dict[str, Any]:
    """The members of a card that an agent has."""
    root = thing.agent if isinstance(thing, Runner) else thing
    root = root.root_agent if isinstance(root, App) else root
    return members(
        root.name,
        description=getattr(root, "description", ""),
        instructions=getattr(root, "instruction", ""),
        tools=getattr(root, "tools", ()),
    )


EXECUTOR = AdkExecutor
