"""Agents: one that is scripted."""

from collections.abc import AsyncIterator
from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types

from tests.frameworks.adapted.replies import Call, done, replies


class BaseAgent:
    __module__ = "google.adk.agents.base_agent"

    def __init__(self, name: str = "scripted", **members: Any) -> None:
        self.name, self.description, self.sub_agents = name, "", []
        self.model, self.output_schema = "scripted", None
        #: events that a message leads to, instead of what the script says
        self.events: dict[str, list[Event]] = {}
        #: True if a tool takes the arguments of a confirmation as its payload
        self.payload = True
        vars(self).update(members)

    async def run(self, events: list[Event], invocation_id: str) -> AsyncIterator[Event]:
        while True:
            parts: list[types.Part] = []
            given = self.events.get(_text(events[-1]))
            if given is not None:
                for event in given:
                    event.invocation_id = invocation_id
                    yield event
                return
            text = ""
            async for said in said_of(contents_of(events)):
                if isinstance(said, str):
                    text += said
                    yield Event(self.name, _content(types.Part(text=said)), invocation_id, partial=True)
                else:
                    made = types.FunctionCall(said.name, said.arguments, f"call-{len(events)}-{len(parts)}")
                    parts.append(types.Part(function_call=made))
            if text:
                parts.insert(0, types.Part(text="thought", thought=True))
                parts.insert(1, types.Part(text=text))
            calls = [part.function_call for part in parts if part.function_call]
            asks = calls and calls[0].name == "question"
            waiting = {one.id for one in calls} if asks else None
            yield Event(self.name, _content(*parts), invocation_id, long_running_tool_ids=waiting)
            if not calls or asks:
                return
            if calls[0].name == "report":
                saved = EventActions({"table.csv": 0})
                yield _results(self.name, invocation_id, calls, "written", saved)
                continue
            yield _results(self.name, invocation_id, calls, "needs a confirmation")
            payloads = [one.args if self.payload else None for one in calls]
            asked = [
                types.FunctionCall(
                    "adk_request_confirmation",
                    {
                        "originalFunctionCall": {"id": one.id, "name": one.name, "args": one.args},
                        "toolConfirmation": {"hint": "Gone for good.", "payload": payload},
                    },
                    f"confirm-{one.id}",
                )
                for one, payload in zip(calls, payloads, strict=True)
            ]
            content = _content(*(types.Part(function_call=one) for one in asked))
            ids = {one.id for one in asked}
            yield Event(self.name, content, invocation_id, long_running_tool_ids=ids)
            return


def confirmed(events: list[Event], responses: list[types.FunctionResponse]) -> Event:
    """The results of the tools whose confirmations were answered."""
    asked = {one.id: one.args for event in events for one in event.get_function_calls()}
    author = next(event.author for event in events if event.author != "user")
    parts = []
    for one in responses:
        original = asked[one.id]["originalFunctionCall"]
        payload = one.response.get("payload") or original["args"]
        done = f"deleted {payload['path']}" if one.response["confirmed"] else "denied"
        made = types.FunctionResponse(original["id"], original["name"], {"result": done})
        parts.append(types.Part(function_response=made))
    return Event(author, types.Content("user", parts), events[-1].invocation_id)


def contents_of(events: list[Event]) -> list[types.Content]:
    """What a model gets: newer results instead of older ones, and no event with a confirmation."""
    events = [one for one in events if not (one.content and any(map(_is_confirmation, one.content.parts)))]
    made: list[types.Content] = []
    newest: dict[str, types.Part] = {}
    for event in events:
        for part in event.content.parts if event.content else ():
            if part.function_response:
                newest[part.function_response.id] = part
    for event in events:
        parts = [
            part
            for part in (event.content.parts if event.content else ())
            if not part.thought and not part.function_response
        ]
        if not parts:
            continue
        made.append(types.Content("user" if event.author == "user" else "model", parts))
        calls = [part.function_call.id for part in parts if part.function_call]
        assert set(calls) <= newest.keys(), f"no result for {calls}"
        if calls:
            made.append(types.Content("user", [newest[one] for one in calls]))
    return made


def _is_confirmation(part: types.Part) -> bool:
    found = part.function_call or part.function_response
    return found is not None and found.name == "adk_request_confirmation"


def _text(event: Event) -> str:
    return "".join(part.text or "" for part in event.content.parts) if event.content else ""


def _content(*parts: types.Part) -> types.Content:
    return types.Content("model", list(parts))


def _results(
    author: str, invocation_id: str, calls: Any, text: str, actions: EventActions | None = None
) -> Event:
    responses = [types.FunctionResponse(one.id, one.name, {"result": text}) for one in calls]
    content = types.Content("user", [types.Part(function_response=one) for one in responses])
    return Event(author, content, invocation_id, actions=actions or EventActions())


async def said_of(contents: list[types.Content]) -> AsyncIterator[str | Call]:
    """What the model says: texts and calls."""
    last = contents[-1].parts
    results = [part.function_response for part in last if part.function_response]
    if results:
        yield done((one.name, one.response.get("result")) for one in results)
        return
    blob = next((part.inline_data for part in last if part.inline_data), None)
    if blob is not None:
        yield f"image {blob.mime_type}"
        return
    users = [part.text for one in contents if one.role == "user" for part in one.parts if part.text]
    async for said in replies("".join(part.text or "" for part in last), users):
        yield said
