"""The gRPC server side as any gRPC client sees it: bytes in, bytes and statuses out."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.pb import google_rpc
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, holding, waiting, yielding
from a2a_bridge.testing.samples import minimal
from tests.patience import LIMITS
from tests.transports.grpc_scene import (
    PATIENCE,
    SERVICE,
    channel,
    details_of,
    finished,
    hosting,
    rejected,
    texts,
)

SEND = f"/{SERVICE}/SendMessage"
STREAM = f"/{SERVICE}/SendStreamingMessage"
ANSWER = minimal(hub.SendMessageResponse)
EVENT = minimal(hub.StreamResponse)
#: a length-delimited member that ends before its length
MALFORMED = b"\x0a\x7fabc"


@pytest.fixture
def probe() -> Probe:
    made = Probe()
    made.on_unary = answering(ANSWER)
    made.on_stream = yielding(EVENT, EVENT)
    return made


@pytest.fixture
async def raw(probe: Probe) -> AsyncIterator[Any]:
    async with hosting(probe) as host, channel(host.address) as opened:
        yield opened


def call(raw: Any, path: str, wire: bytes = b"", **options: Any) -> Any:
    make = raw.unary_stream if path == STREAM else raw.unary_unary
    return make(path)(wire, **options)


async def test_metadata_becomes_parameters(raw: Any, probe: Probe) -> None:
    metadata = (("x", "1"), ("authorization", "Bearer t"), ("x", "2"), ("trace-bin", b"\x00\xff"))
    await call(raw, SEND, metadata=metadata)
    context = probe.last.context
    assert (context.parameters["x"], context.parameters["authorization"]) == ("1,2", "Bearer t")
    assert "trace-bin" not in context.parameters
    assert context.origin.peer.startswith("ipv4:127.0.0.1:")
    assert context.deadline is None


@pytest.mark.parametrize("path", [SEND, STREAM])
@pytest.mark.parametrize("version", [None, "", " ", "1.0", "1.0.1", " 1.0 ", "01.0"])
async def test_versions_that_the_package_agrees_with(
    raw: Any, probe: Probe, path: str, version: str | None
) -> None:
    metadata = () if version is None else (("a2a-version", version),)
    for _ in range(2):  # the second time it is remembered
        assert await finished(call(raw, path, metadata=metadata))
    assert probe.last.context.origin.version == "1.0"


@pytest.mark.parametrize("path", [SEND, STREAM, f"/{SERVICE}/Nothing"])
@pytest.mark.parametrize(
    "version", ["0.3", "0.3.0", "0.2.5", "0.5", "1.7", "2.0", "1", "v1.0", "1.0.0.0", "one"]
)
async def test_versions_that_contradict_the_package(raw: Any, probe: Probe, path: str, version: str) -> None:
    for _ in range(2):
        error = await rejected(call(raw, path, metadata=(("a2a-version", version),)))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        reason, details = details_of(error)
        assert reason == "VERSION_NOT_SUPPORTED"
        assert google_rpc.ErrorInfo.FromString(details[0].value).metadata["supportedVersions"] == "1.0"
    assert not probe.calls


async def test_many_variants_of_a_version(raw: Any, probe: Probe) -> None:
    for patch in range(40):
        await call(raw, SEND, metadata=(("a2a-version", f"1.0.{patch}"),))
    assert len(probe.calls) == 40


@pytest.mark.parametrize("path", [SEND, STREAM])
async def test_malformed_protobuf(
    raw: Any, probe: Probe, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await rejected(call(raw, path, MALFORMED))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details_of(error)[0] == "PARSE_ERROR"
    assert not any(
        word in text
        for text in texts(error)
        for word in ("Error parsing", "Traceback", "pb2", "google.protobuf")
    )
    assert not probe.calls
    assert not caplog.records


async def test_unknown_members_are_ignored(raw: Any, probe: Probe) -> None:
    await call(raw, SEND, b"\xfa\x3f\x03abc")
    assert probe.last.operation.name == "SendMessage"


@pytest.mark.parametrize("name", ["Nothing", "sendMessage", "SendMessage/", ""])
async def test_an_unknown_operation(raw: Any, name: str) -> None:
    for make in (raw.unary_unary, raw.unary_stream):
        error = await rejected(make(f"/{SERVICE}/{name}")(b"x" * 100))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        if not name.endswith("/"):
            assert details_of(error)[0] == "METHOD_NOT_FOUND"


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "GetAgentCard"])
async def test_a_package_that_contradicts_the_version_is_rejected(
    raw: Any, probe: Probe, method: str
) -> None:
    """It is how a caller of 0.3 finds out; it sends no A2A-Version, because its version has none."""
    for make in (raw.unary_unary, raw.unary_stream):
        error = await rejected(make(f"/a2a.v1.A2AService/{method}")(b"anything"))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert details_of(error)[0] == "VERSION_NOT_SUPPORTED"
    assert not probe.calls


async def test_other_services_are_not_ours(raw: Any) -> None:
    error = await rejected(raw.unary_unary("/some.package.OtherService/SendMessage")(b""))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "grpc-status-details-bin" not in dict(error.trailing_metadata())


@pytest.mark.parametrize("path", [SEND, STREAM])
@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
async def test_the_table_of_errors(raw: Any, probe: Probe, path: str, reason: Reason) -> None:
    error = A2AError(reason, metadata={"k": "v"})
    probe.on_unary, probe.on_stream = answering(error), yielding(error)
    got = await rejected(call(raw, path))
    assert (got.code().value[0], got.details()) == (reason.grpc, reason.text)
    name, details = details_of(got)
    assert name == reason.name
    assert dict(google_rpc.ErrorInfo.FromString(details[0].value).metadata) == {"k": "v"}


async def test_violations_are_a_bad_request(raw: Any, probe: Probe) -> None:
    probe.on_unary = answering(invalid_params("message.parts", "is required"))
    error = await rejected(call(raw, SEND))
    _, details = details_of(error)
    assert details[1].type_url == "type.googleapis.com/google.rpc.BadRequest"
    (violation,) = google_rpc.BadRequest.FromString(details[1].value).field_violations
    assert (violation.field, violation.description) == ("message.parts", "is required")


async def test_status_texts_are_one_line(raw: Any, probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.INTERNAL_ERROR, "50% é\r\nx-injected: 1\x00"))
    assert (await rejected(call(raw, SEND))).details() == "50% é x-injected: 1 "


async def test_a_text_that_cannot_be_encoded_keeps_its_error(raw: Any, probe: Probe) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND, "lone \ud800 surrogate"))
    error = await rejected(call(raw, SEND))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert details_of(error)[0] == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    "defect", [RuntimeError("a secret"), asyncio.CancelledError("a secret")], ids=["exception", "cancelled"]
)
@pytest.mark.parametrize("path", [SEND, STREAM])
async def test_defects_are_logged_and_not_sent(
    raw: Any, probe: Probe, path: str, defect: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    probe.on_unary, probe.on_stream = answering(defect), yielding(defect)
    with caplog.at_level(logging.ERROR, "a2a_bridge.grpc"):
        error = await asyncio.wait_for(rejected(call(raw, path)), PATIENCE)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert details_of(error)[0] == "INTERNAL_ERROR"
    assert not any("secret" in text or "Error(" in text for text in texts(error))
    assert "a secret" in caplog.text


async def test_an_answer_that_is_no_message_is_a_defect(
    raw: Any, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    probe.on_unary = answering({"task": {}})
    with caplog.at_level(logging.ERROR, "a2a_bridge.grpc"):
        error = await rejected(call(raw, SEND))
    assert details_of(error)[0] == "INTERNAL_ERROR"
    assert caplog.records


async def test_reply_parameters_are_initial_metadata(raw: Any, probe: Probe) -> None:
    async def unary(made: Call[Any, Any]) -> Any:
        made.context.reply["a2a-extensions"] = "https://e.example/1"
        return ANSWER

    async def stream(made: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        made.context.reply["a2a-extensions"] = "https://e.example/1"
        yield EVENT
        await asyncio.Event().wait()

    probe.on_unary, probe.on_stream = unary, stream
    for path in (SEND, STREAM):
        rpc = call(raw, path)
        metadata = await asyncio.wait_for(rpc.initial_metadata(), PATIENCE)
        assert metadata["a2a-extensions"] == "https://e.example/1"
        rpc.cancel()


async def test_reply_parameters_of_an_empty_stream(raw: Any, probe: Probe) -> None:
    async def stream(made: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        made.context.reply["a2a-extensions"] = "https://e.example/1"
        for _ in ():
            yield EVENT

    probe.on_stream = stream
    rpc = call(raw, STREAM)
    assert await finished(rpc) == []
    # Not the initial metadata: grpcio drops it when it sees the status first, which happens under load.
    assert (await rpc.trailing_metadata())["a2a-extensions"] == "https://e.example/1"


async def test_reply_parameters_come_with_errors(raw: Any, probe: Probe) -> None:
    async def unary(made: Call[Any, Any]) -> Any:
        made.context.reply["a2a-extensions"] = "https://e.example/1"
        raise A2AError(Reason.TASK_NOT_FOUND)

    probe.on_unary = unary
    error = await rejected(call(raw, SEND))
    assert dict(error.trailing_metadata())["a2a-extensions"] == "https://e.example/1"


@pytest.mark.parametrize("path", [SEND, STREAM])
async def test_a_deadline_arrives_and_ends_the_work(raw: Any, probe: Probe, path: str) -> None:
    probe.on_unary, probe.on_stream = waiting, holding(EVENT)
    for seconds in LIMITS:
        error = await rejected(call(raw, path, timeout=seconds))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if probe.calls:
            break
    await probe.wait_running(0)
    assert probe.cancelled == len(probe.calls)
    assert probe.last.context.deadline is not None


@pytest.mark.parametrize("path", [SEND, STREAM])
async def test_a_request_that_is_too_large(probe: Probe, path: str) -> None:
    async with hosting(probe, max_body=10_000) as host, channel(host.address) as raw:
        wire = hub.SendMessageRequest(message=hub.Message(message_id="x" * 9000)).SerializeToString()
        assert await finished(call(raw, path, wire))
        error = await rejected(call(raw, path, wire * 2))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details_of(error)[0] == "REQUEST_TOO_LARGE"
        # Far above the limit grpcio rejects by itself, with the same status but without details.
        error = await rejected(call(raw, path, wire * 300))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(probe.calls) == 1


async def test_metadata_has_one_limit(probe: Probe) -> None:
    async with hosting(probe, max_header=4096) as host, channel(host.address) as raw:
        for _ in range(6):
            assert await call(raw, SEND, metadata=(("x", "v" * 3000),)) == ANSWER.SerializeToString()
        for _ in range(6):
            error = await rejected(call(raw, SEND, metadata=(("x", "v" * 4100),)))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(probe.calls) == 6
