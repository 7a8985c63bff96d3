"""Sends one request once: the content of the response, and its number of bytes. No load generator.

Every response is checked before it is measured, and its size is compared with what the load generators read
afterwards, so that an error is never counted as a fast answer.
"""

from __future__ import annotations

import json
import socket
from typing import Any, BinaryIO

import grpc
from google.protobuf import json_format

from a2a_bridge.pb import lf_a2a_v1 as hub
from benchmarks.processes import BenchmarkError
from benchmarks.tools import Target
from benchmarks.work import Work

SECONDS = 15.0
#: header fields that grpc sends by itself
_OF_GRPC = ("content-type", "te")

_RESPONSES: dict[str, Any] = {
    "SendMessage": hub.SendMessageResponse,
    "SendStreamingMessage": hub.StreamResponse,
    "GetTask": hub.Task,
}


def ask(work: Work, target: Target) -> tuple[list[Any], int]:
    """The response as JSON values (one, or the events of a stream) and its bytes as the load generator
    counts.
    """
    if work.kind == "GRPC":
        messages = grpc_messages(target)
        cls = _RESPONSES[work.operation]
        return [json_format.MessageToDict(cls.FromString(m)) for m in messages], framed_size(messages)
    body, size = http_answer(target)
    if work.per_answer == 1:
        values = [json.loads(body)]
    else:
        values = [json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data:")]
    if work.kind == "JSONRPC":
        values = [_result(value) for value in values]
    return values, size


def _result(frame: dict[str, Any]) -> Any:
    if frame.get("id") != 1 or "result" not in frame:
        raise BenchmarkError(f"not a result: {frame}")
    return frame["result"]


def http_answer(target: Target) -> tuple[bytes, int]:
    """Body of the response, and all its bytes with head and chunk sizes. Raises BenchmarkError unless it is
    200.
    """
    return http_answers(target, 1)


def http_answers(target: Target, times: int) -> tuple[bytes, int]:
    """The same for the last of some requests on one connection, one after the other."""
    host, _, port = target.address.rpartition(":")
    fields = {"Host": target.address, **target.headers}
    if target.body:
        fields["Content-Length"] = str(len(target.body))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    request = f"{target.method} {target.path} HTTP/1.1\r\n{head}\r\n".encode() + target.body
    with (
        socket.create_connection((host, int(port)), SECONDS) as connection,
        connection.makefile("rb") as stream,
    ):
        answer = b"", 0
        for _ in range(times):
            connection.sendall(request)
            answer = _read(stream, target)
    return answer


def _read(stream: BinaryIO, target: Target) -> tuple[bytes, int]:
    lines = [stream.readline()]
    while lines[-1] not in (b"\r\n", b""):
        lines.append(stream.readline())
    size = sum(map(len, lines))
    if b" 200 " not in lines[0]:
        raise BenchmarkError(f"{target.method} {target.path} answers {lines[0]!r}")
    answer = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in lines[1:-1])
    }
    if b"content-length" in answer:
        body = stream.read(int(answer[b"content-length"]))
        return body, size + len(body)
    body = b""
    while True:
        line = stream.readline()
        length = int(line, 16)
        chunk = stream.read(length + 2)
        size += len(line) + len(chunk)
        if length == 0:
            return body, size
        body += chunk[:-2]


def grpc_messages(target: Target) -> list[bytes]:
    """The messages a call answers with. Raises BenchmarkError unless its status is OK."""
    metadata = [
        (name.lower(), value) for name, value in target.headers.items() if name.lower() not in _OF_GRPC
    ]
    with grpc.insecure_channel(target.address) as channel:
        call = channel.unary_stream(target.path)
        try:
            return list(call(target.body[5:], metadata=metadata, timeout=SECONDS))
        except grpc.RpcError as error:
            raise BenchmarkError(f"{target.path} answers {error}") from error


def framed_size(messages: list[bytes]) -> int:
    """Bytes of gRPC messages with their five bytes of frame each."""
    return sum(5 + len(message) for message in messages)
