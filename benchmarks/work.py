"""The rows of load: the repeated request, the right response, and the target of the ratio.

It sends nothing. Requests are bytes made here once, so that both sides get the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks import agent
from benchmarks.databases import POSTGRESQL, SQLITE
from benchmarks.processes import BenchmarkError
from benchmarks.tools import Target

#: callers of 0.3 do not send their version
LEGACY_HEADERS = {"Content-Type": "application/json"}
JSON_HEADERS = {"Content-Type": "application/json", "A2A-Version": agent.VERSION}
GRPC_HEADERS = {"content-type": "application/grpc", "te": "trailers", "a2a-version": agent.VERSION}
MESSAGE_ID = "5b1c6b0e-6c1f-4b0a-9d0e-4f3b6a1c2d3e"

Check = Callable[[list[Any]], None]


@dataclass(frozen=True, slots=True)
class Work:
    """One row.

    kind: the binding the load speaks. text: the message to the agent (see `benchmarks.agent`).
    per_answer: how many of the row's units one answer holds; 1 for calls, the events of a stream.
    goal: the target for the rate of the best of our hosts over the SDK's; None when the row is only
    informative. builtin_goal: the same for our builtin host, with uvloop.
    gateway: the server under test stands before a gRPC agent.
    twin: similar to another row, so that a quick run omits it.
    legacy: the load is a client of version 0.3, and the servers speak that beside 1.0.
    store: the kind of database that both sides keep tasks in; ours in memory is measured beside them.
    share: the target for the share of our rate in memory.
    """

    title: str
    kind: str
    operation: str
    text: str
    goal: float | None
    check: Check
    per_answer: int = 1
    gateway: bool = False
    twin: bool = False
    legacy: bool = False
    store: str = ""
    share: float | None = None
    builtin_goal: float | None = None

    @property
    def unit(self) -> str:
        return "calls/s" if self.per_answer == 1 else "events/s"

    @property
    def family(self) -> str:
        return "grpc" if self.kind == "GRPC" else "http"

    def target(self, address: str, task_id: str = "") -> Target:
        """The request to repeat at `host:port`. `task_id`: for GetTask."""
        request: Any = hub.GetTaskRequest(id=task_id) if self.operation == "GetTask" else send(self.text)
        if self.kind == "GRPC":
            wire = request.SerializeToString()
            body = b"\0" + len(wire).to_bytes(4, "big") + wire
            return Target("POST", address, grpc_path(self.operation), GRPC_HEADERS, body)
        params = {"id": task_id} if self.operation == "GetTask" else send_json(self.text)
        if self.legacy:
            frame = {"jsonrpc": "2.0", "id": 1, "method": self.operation, "params": send_legacy(self.text)}
            return Target("POST", address, "/", LEGACY_HEADERS, raw_bytes(frame))
        if self.kind == "JSONRPC":
            frame = {"jsonrpc": "2.0", "id": 1, "method": self.operation, "params": params}
            return Target("POST", address, "/", JSON_HEADERS, raw_bytes(frame))
        if self.operation == "GetTask":
            return Target("GET", address, f"/tasks/{task_id}", {"A2A-Version": agent.VERSION}, b"")
        path = "/message:send" if self.per_answer == 1 else "/message:stream"
        return Target("POST", address, path, JSON_HEADERS, raw_bytes(params))

    def bare_target(self, address: str) -> Target:
        """The request to the bare server: the same bytes, at its own paths."""
        like = self.target(address, task_id=MESSAGE_ID)
        if self.kind == "GRPC":
            operation = "SendMessage" if self.per_answer == 1 else "SendStreamingMessage"
            return Target("POST", address, grpc_path(operation), GRPC_HEADERS, like.body)
        # A bare gateway does not read JSON: it forwards the bytes, so they are those for the gRPC agent.
        body = send(self.text).SerializeToString() if self.gateway else like.body
        return Target("POST", address, "/" if self.per_answer == 1 else "/events", JSON_HEADERS, body)


def send(text: str) -> hub.SendMessageRequest:
    return hub.SendMessageRequest(
        message=hub.Message(message_id=MESSAGE_ID, role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    )


def send_json(text: str) -> dict[str, Any]:
    return {"message": {"messageId": MESSAGE_ID, "role": "ROLE_USER", "parts": [{"text": text}]}}


def send_legacy(text: str) -> dict[str, Any]:
    """A request as the official client of 0.3 sends it: always with `blocking`."""
    parts = [{"kind": "text", "text": text}]
    message = {"kind": "message", "messageId": MESSAGE_ID, "role": "user", "parts": parts}
    return {"message": message, "configuration": {"blocking": True}}


def raw_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def grpc_path(operation: str) -> str:
    return f"/lf.a2a.v1.A2AService/{operation}"


def _expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise BenchmarkError(f"wrong answer: {what} is {found!r}, not {wanted!r}")


def is_message(events: list[Any]) -> None:
    _expect("number of answers", len(events), 1)
    message = events[0]["message"]
    _expect("role", message["role"], "ROLE_AGENT")
    _expect("parts", message["parts"], [{"text": agent.ECHO}])


def is_response_task(events: list[Any]) -> None:
    _expect("number of answers", len(events), 1)
    _is_done(events[0]["task"])


def is_task(events: list[Any]) -> None:
    _expect("number of answers", len(events), 1)
    _is_done(events[0])


def _is_done(task: dict[str, Any]) -> None:
    _expect("state", task["status"]["state"], "TASK_STATE_COMPLETED")
    _expect("artifacts", [artifact["parts"] for artifact in task["artifacts"]], [[{"text": agent.ANSWER}]])
    _expect("history", [message["messageId"] for message in task["history"]], [MESSAGE_ID])


def is_stream(events: list[Any]) -> None:
    _expect("number of events", len(events), agent.EVENTS)
    _expect("first state", events[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED")
    _expect("second state", events[1]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING")
    _expect("last state", events[-1]["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED")
    chunks = [event["artifactUpdate"]["artifact"]["parts"] for event in events[2:-1]]
    _expect("chunks", chunks, [[{"text": agent.CHUNK}]] * agent.CHUNKS)


def is_legacy_message(events: list[Any]) -> None:
    _expect("number of answers", len(events), 1)
    message = events[0]
    _expect("kind and role", (message["kind"], message["role"]), ("message", "agent"))
    _expect("parts", message["parts"], [{"kind": "text", "text": agent.ECHO}])


def is_legacy_task(events: list[Any]) -> None:
    _expect("number of answers", len(events), 1)
    task = events[0]
    _expect("kind and state", (task["kind"], task["status"]["state"]), ("task", "completed"))
    parts = [artifact["parts"] for artifact in task["artifacts"]]
    _expect("artifacts", parts, [[{"kind": "text", "text": agent.ANSWER}]])
    _expect("history", [message["messageId"] for message in task["history"]], [MESSAGE_ID])


def is_legacy_stream(events: list[Any]) -> None:
    _expect("number of events", len(events), agent.EVENTS)
    _expect("first state", (events[0]["kind"], events[0]["status"]["state"]), ("task", "submitted"))
    _expect("last state", (events[-1]["status"]["state"], events[-1]["final"]), ("completed", True))
    chunks = [event["artifact"]["parts"] for event in events[2:-1]]
    _expect("chunks", chunks, [[{"kind": "text", "text": agent.CHUNK}]] * agent.CHUNKS)


LEGACY_SEND, LEGACY_STREAM = "message/send", "message/stream"
SEND, STREAM, GET = "SendMessage", "SendStreamingMessage", "GetTask"

WORK = (
    Work("JSON-RPC message", "JSONRPC", SEND, agent.ECHO, 9.0, is_message, builtin_goal=7.0),
    Work("REST message", "HTTP+JSON", SEND, agent.ECHO, 9.0, is_message, twin=True),
    Work("JSON-RPC task", "JSONRPC", SEND, agent.TASK, 8.0, is_response_task, builtin_goal=6.0),
    Work("REST task", "HTTP+JSON", SEND, agent.TASK, 8.0, is_response_task, twin=True),
    Work("JSON-RPC GetTask", "JSONRPC", GET, agent.TASK, 3.0, is_task),
    Work("REST GetTask", "HTTP+JSON", GET, agent.TASK, 3.0, is_task, twin=True),
    Work("JSON-RPC stream", "JSONRPC", STREAM, agent.STREAM, 12.0, is_stream, agent.EVENTS),
    Work("REST stream", "HTTP+JSON", STREAM, agent.STREAM, 12.0, is_stream, agent.EVENTS, twin=True),
    Work("gRPC message", "GRPC", SEND, agent.ECHO, 6.0, is_message, builtin_goal=3.0),
    Work("gRPC task", "GRPC", SEND, agent.TASK, 5.5, is_response_task),
    Work("gRPC stream", "GRPC", STREAM, agent.STREAM, 6.0, is_stream, agent.EVENTS),
    Work("gateway JSON-RPC to gRPC", "JSONRPC", SEND, agent.ECHO, 6.0, is_message, gateway=True),
    Work("0.3 JSON-RPC message", "JSONRPC", LEGACY_SEND, agent.ECHO, 6.0, is_legacy_message, legacy=True),
    Work("0.3 JSON-RPC task", "JSONRPC", LEGACY_SEND, agent.TASK, 5.0, is_legacy_task, legacy=True),
    Work(
        "0.3 JSON-RPC stream",
        "JSONRPC",
        LEGACY_STREAM,
        agent.STREAM,
        None,
        is_legacy_stream,
        agent.EVENTS,
        twin=True,
        legacy=True,
    ),
    Work(
        "gateway 0.3 JSON-RPC to 1.0 gRPC",
        "JSONRPC",
        LEGACY_SEND,
        agent.ECHO,
        6.0,
        is_legacy_message,
        gateway=True,
        legacy=True,
    ),
    *(
        work
        for store in (SQLITE, POSTGRESQL)
        for work in (
            Work(
                f"{store} task",
                "JSONRPC",
                SEND,
                agent.TASK,
                5.0,
                is_response_task,
                twin=store != SQLITE,
                store=store,
                share=0.5 if store == SQLITE else None,
            ),
            Work(
                f"{store} stream",
                "JSONRPC",
                STREAM,
                agent.STREAM,
                6.0,
                is_stream,
                agent.EVENTS,
                twin=store != SQLITE,
                store=store,
            ),
            Work(f"{store} GetTask", "JSONRPC", GET, agent.TASK, 2.0, is_task, twin=True, store=store),
        )
    ),
)
