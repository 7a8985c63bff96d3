"""What a large message costs the event loop: no look at each of its members, and few passes in C."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import httpx
import pytest

from a2a_bridge import agent, interface, serve
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.cards import Candidate
from a2a_bridge.dialects import V1_0
from a2a_bridge.hosting import Agent, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.patience import PATIENCE

#: members of the metadata, about 1 MB, and bytes from which a message counts as large
MEMBERS, LARGE = 60_000, 500_000
_WRITES = {"SerializeToString", "ByteSize", "ListFields"}
_COPIES = {"MergeFromString", "CopyFrom", "MergeFrom"}
SEND = "/lf.a2a.v1.A2AService/SendMessage"
#: binding and version of the caller
CALLERS = [
    ("JSONRPC", "1.0"),
    ("JSONRPC", "0.3"),
    ("HTTP+JSON", "1.0"),
    ("HTTP+JSON", "0.3"),
    ("GRPC", "1.0"),
]


class Worker:
    """Works on a task. go_on: awaited after its first event."""

    def __init__(self, go_on: asyncio.Event) -> None:
        self._go_on = go_on

    async def execute(self, run: Run) -> Any:
        yield run.status("working")
        await self._go_on.wait()
        yield run.artifact("done")
        yield run.status("completed")


class Walks:
    """Counts in the thread of the loop: calls of Python and C, and those that walk through a large message."""

    def __init__(self) -> None:
        self.calls = 0
        self.large: Counter[str] = Counter()
        #: the size of the message that a call of C is filling
        self._before = 0

    def __call__(self, _frame: Any, what: str, function: Any) -> None:
        self.calls += what in ("call", "c_call")
        if what == "c_call" and function.__name__ in _COPIES:
            self._before = self._size(function)
        elif what == "c_return" and function.__name__ in _WRITES | _COPIES:
            size = self._size(function)
            grown = size - self._before if function.__name__ in _COPIES else size
            if grown > LARGE:
                self.large[function.__name__] += 1

    def _size(self, function: Any) -> int:
        sys.setprofile(None)
        try:
            message = function.__self__
            return 0 if isinstance(message, type) else int(message.ByteSize())
        finally:
            sys.setprofile(self)


def _message(version: str, members: int = MEMBERS) -> dict[str, Any]:
    message: dict[str, Any] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    if version == "0.3":
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    return message | {"metadata": {f"k{number:05}": number for number in range(members)}}


def _json_rpc(version: str, members: int = MEMBERS, *, streams: bool = False) -> bytes:
    method = "Send" + "Streaming" * streams + "Message"
    if version == "0.3":
        method = "message/stream" if streams else "message/send"
    params = {"message": _message(version, members)}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def _send(binding: str, version: str, server: Any, members: int = MEMBERS) -> dict[str, Any]:
    """Sends a message, and returns the task in the response. For a thread."""
    if binding == "GRPC":
        request = hub.SendMessageRequest()
        message = request.message
        message.message_id, message.role, message.parts.add().text = "m", hub.ROLE_USER, "hi"
        message.metadata.update(_message("1.0", members)["metadata"])
        with grpc.insecure_channel(str(server.grpc)) as channel:
            call = channel.unary_unary(SEND)
            wire = call(request.SerializeToString(), timeout=PATIENCE, metadata=[("a2a-version", "1.0")])
        history = hub.SendMessageResponse.FromString(wire).task.history
        return {"history": [{"metadata": dict.fromkeys(one.metadata.fields)} for one in history]}
    path, body = "", _json_rpc(version, members)
    if binding == "HTTP+JSON":
        path = "/message:send" if version == "1.0" else "/v1/message:send"
        shown = _message("1.0", members)
        if version == "0.3":
            shown["content"] = shown.pop("parts")
        body = json.dumps({"message": shown}).encode()
    headers = {"A2A-Version": version, "Content-Type": "application/json"}
    with httpx.Client(timeout=PATIENCE) as client:
        answer = client.post(f"http://{server.http}{path}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text[:500]
    found = answer.json()
    found = found.get("result", found)
    return found.get("task", found)  # type: ignore[no-any-return]


async def _counted(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Walks]:
    """The result of a function in a thread, and the walks in this one; conversions are compiled before."""
    walks = Walks()
    sys.setprofile(walks)
    try:
        result = await asyncio.to_thread(function, *arguments)
    finally:
        sys.setprofile(None)
    assert 100 < walks.calls < MEMBERS / 4
    return result, walks


def _url(store: str, folder: Path) -> str:
    return "memory://" if store == "memory" else f"sqlite:///{folder / 'tasks.db'}"


@pytest.mark.parametrize(("binding", "version"), CALLERS)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_task_with_a_large_message_writes_it_once_on_the_loop(
    binding: str, version: str, store: str, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    go_on.set()
    worker = Agent(Worker(go_on), name="echo", description="d")
    async with serve(worker, options=ServeOptions(store=_url(store, tmp_path))) as server:
        await asyncio.to_thread(_send, binding, version, server, 1)
        task, walks = await _counted(_send, binding, version, server)
    assert len(task["history"][0]["metadata"]) == MEMBERS
    # The first event, for the log of the task.
    assert walks.large == {"SerializeToString": 1}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_stream_of_a_slow_task_writes_a_large_message_twice_on_the_loop(
    store: str, tmp_path: Path
) -> None:
    go_on, loop = asyncio.Event(), asyncio.get_running_loop()
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}

    def read(server: Any) -> list[Any]:
        results = []
        body, url = _json_rpc("1.0", streams=True), f"http://{server.http}"
        with (
            httpx.Client(timeout=PATIENCE) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    results.append(json.loads(line.removeprefix("data:"))["result"])
                    loop.call_soon_threadsafe(go_on.set)  # the first event is stored now
        return results

    options = ServeOptions(store=_url(store, tmp_path))
    worker = Agent(Worker(go_on), name="echo", description="d")
    async with serve(worker, options=options) as server:
        results, walks = await _counted(read, server)
        begun = results[0]["task"]
        # The first event, for the log of the task and for the caller.
        assert walks.large == {"SerializeToString": 2}
        assert len(begun["history"][0]["metadata"]) == MEMBERS
        if store == "memory":
            await _check_stored(server, begun["id"])
    if store != "memory":
        async with serve(worker, options=options) as server:
            await _check_stored(server, begun["id"])


async def _check_stored(server: Any, task_id: str) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.post(f"http://{server.http}", json=request, headers={"A2A-Version": "1.0"})
    task = answer.json()["result"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [one["parts"] for one in task["artifacts"]] == [[{"text": "done"}]]
    assert [len(one["metadata"]) for one in task["history"]] == [MEMBERS]


@pytest.mark.parametrize(("binding", "version"), CALLERS)
async def test_a_direct_reply_to_a_large_message_writes_nothing_on_the_loop(
    binding: str, version: str
) -> None:
    @agent
    async def echo(text: str) -> str:
        return text

    async with serve(echo, options=ServeOptions(store="memory://")) as server:
        await asyncio.to_thread(_send, binding, version, server, 1)
        _, walks = await _counted(_send, binding, version, server)
    assert not walks.large


def _answer_grpc(wire: bytes, _: Any) -> bytes:
    message = hub.SendMessageRequest.FromString(wire).message
    task = hub.Task(id="t", context_id="c", history=[message])
    task.status.state = hub.TASK_STATE_COMPLETED
    return hub.SendMessageResponse(task=task).SerializeToString()


class _JsonRpcAgent(BaseHTTPRequestHandler):
    """Answers with a task that has the message."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"state": "TASK_STATE_COMPLETED"}
        task = {"id": "t", "contextId": "c", "status": status, "history": [request["params"]["message"]]}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"task": task}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


@contextmanager
def _agent_in_threads(binding: str) -> Iterator[hub.AgentInterface]:
    if binding == "GRPC":
        handler = grpc.unary_unary_rpc_method_handler(_answer_grpc)
        service, method = SEND.strip("/").split("/")
        with ThreadPoolExecutor(1) as threads:
            agent_server = grpc.server(threads)
            handlers = grpc.method_handlers_generic_handler(service, {method: handler})
            agent_server.add_generic_rpc_handlers((handlers,))
            port = agent_server.add_insecure_port("127.0.0.1:0")
            agent_server.start()
            try:
                yield interface("GRPC", f"127.0.0.1:{port}")
            finally:
                agent_server.stop(None).wait(PATIENCE)
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), _JsonRpcAgent) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        try:
            yield interface("JSONRPC", f"http://127.0.0.1:{http.server_port}")
        finally:
            http.shutdown()
            thread.join(PATIENCE)


@pytest.mark.parametrize(("binding", "version"), CALLERS)
@pytest.mark.parametrize("upstream", ["JSONRPC", "GRPC"])
async def test_a_gateway_writes_no_large_message_on_the_loop(
    binding: str, version: str, upstream: str
) -> None:
    card = hub.AgentCard(name="agent", version="1")
    with _agent_in_threads(upstream) as declared:
        async with serve_gateway(card, [Candidate(declared, V1_0)]) as server:
            await asyncio.to_thread(_send, binding, version, server, 1)
            task, walks = await _counted(_send, binding, version, server)
    assert len(task["history"][0]["metadata"]) == MEMBERS
    assert not walks.large
