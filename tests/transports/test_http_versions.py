"""Several versions at one HTTP address: detection, names of methods, and content beside messages."""

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL, Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import HTTP_JSON, JSONRPC, V1_0, Dialect, ErrorReply
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import answering, yielding
from a2a_bridge_transports._http.asgi import AsgiHost
from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_peer import METHODS, OLD, OLDER, http, peering
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    Answer,
    Scripted,
    ask,
    dialling,
    frame,
    hosting,
    request,
    update,
)

ALL = (V1_0, OLD, OLDER)
NEW_NAMES = {operation: operation.name for operation in METHODS}


@dataclass(frozen=True)
class Variant:
    """The requests of one binding for the same operations, in either version."""

    kind: str

    def send(self, *, old: bool, version: str = "", **headers: str) -> bytes:
        if self.kind == "JSONRPC":
            body = frame("message/send" if old else "SendMessage", {"message": MESSAGE})
            return request("POST", "/", body, version=version, **headers)
        path = "/v1/message:send" if old else "/message:send"
        return request("POST", path, json.dumps({"message": MESSAGE}), version=version, **headers)

    def get(self, note: str = "", *, old: bool = True, version: str = "", **headers: str) -> bytes:
        if self.kind == "JSONRPC":
            params = {"id": "t", **({"note": note} if note else {})}
            return request(
                "POST", "/", frame("tasks/get" if old else "GetTask", params), version=version, **headers
            )
        query = f"?note={note}" if note else ""
        return request("GET", f"{'/v1' if old else ''}/tasks/t{query}", version=version, **headers)

    def result(self, answer: Answer) -> Any:
        assert answer.status == 200, answer
        tree = answer.json()
        return tree["result"] if self.kind == "JSONRPC" else tree

    def reason(self, answer: Answer) -> str:
        """The reason of an error, in the form of any version."""
        form = OLD.forms[JSONRPC if self.kind == "JSONRPC" else HTTP_JSON]
        tree = answer.json()
        body = tree["error"] if self.kind == "JSONRPC" else tree
        return form.decode_error(ErrorReply(answer.status, body)).reason.name

    def is_old(self, answer: Answer) -> bool:
        """Whether an error has the form of 0.3."""
        tree = answer.json()
        if self.kind == "HTTP+JSON":
            return "message" in tree
        error = tree["error"]
        return "data" not in error or error["message"] == "Request payload validation error"


both = pytest.mark.parametrize("binding", [Variant(kind) for kind in BINDINGS], ids=BINDINGS)
REST, RPC = Variant("HTTP+JSON"), Variant("JSONRPC")


async def spoken(binding: Variant, dialects: Any, *, lenient: bool = False, **how: Any) -> str:
    """The version in which a request was read, or the reason of its rejection."""
    service = Scripted()
    options = HostOptions(lenient_versions=lenient)
    async with hosting(service, options=options, dialects=dialects) as host:
        answer = await ask(host, binding.send(**how))
    if not service.calls:
        return binding.reason(answer) + (" (old)" if binding.is_old(answer) else "")
    binding.result(answer)
    return service.calls[0].context.origin.version


@both
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("", "0.3"),
        ("0.3", "0.3"),
        ("0.3.0", "0.3"),
        ("0.3.1", "0.3"),
        ("0.2", "0.2.5"),
        ("0.2.5", "0.2.5"),
        ("0.2.6", "0.2.5"),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
async def test_old_callers(binding: Variant, version: str, expected: str, lenient: bool) -> None:
    assert await spoken(binding, ALL, old=True, version=version, lenient=lenient) == expected


@both
async def test_old_callers_of_an_agent_that_has_the_older_version_only(binding: Variant) -> None:
    assert await spoken(binding, (V1_0, OLDER), old=True) == "0.2.5"
    assert await spoken(binding, (OLDER,), old=True) == "0.2.5"
    assert (await spoken(binding, (OLDER,), old=True, version="0.3")).startswith("VERSION_NOT_SUPPORTED")


@both
async def test_new_callers(binding: Variant) -> None:
    for version in ("1.0", "1.0.1", " 1.0 "):
        assert await spoken(binding, ALL, old=False, version=version) == "1.0"


@both
@pytest.mark.parametrize("lenient", [False, True])
async def test_several_versions_in_one_request(binding: Variant, lenient: bool) -> None:
    """Neither the first nor the last of them is taken, as over gRPC."""
    for first, second in (("1.0", "0.3"), ("0.3", "1.0")):
        how = {"old": False, "version": first, "a2a_version": second, "lenient": lenient}
        assert (await spoken(binding, ALL, **how)).startswith("VERSION_NOT_SUPPORTED")
    assert await spoken(binding, ALL, old=False, version="1.0", a2a_version="1.0", lenient=lenient) == "1.0"


@both
async def test_a_caller_of_a_new_address_has_to_say_its_version(binding: Variant) -> None:
    assert await spoken(binding, ALL, old=False) == "VERSION_NOT_SUPPORTED"
    assert await spoken(binding, (V1_0,), old=False) == "VERSION_NOT_SUPPORTED"
    assert await spoken(binding, ALL, old=False, lenient=True) == "1.0"


async def test_an_old_method_of_a_caller_that_declares_1_0() -> None:
    assert await spoken(RPC, ALL, old=True, version="1.0") == "METHOD_NOT_FOUND"
    assert await spoken(RPC, ALL, old=True, version="1.0", lenient=True) == "0.3"


async def test_an_old_path_of_a_caller_that_declares_1_0_holds_a_tenant() -> None:
    service = Scripted()
    async with hosting(service, dialects=ALL) as host:
        REST.result(await ask(host, REST.send(old=True, version="1.0")))
    assert service.calls[0].context.tenant == "v1"


@both
async def test_a_new_address_of_a_caller_that_declares_an_old_version(binding: Variant) -> None:
    assert await spoken(binding, ALL, old=False, version="0.3") == "METHOD_NOT_FOUND (old)"
    assert await spoken(binding, ALL, old=False, version="0.3", lenient=True) == "1.0"


async def test_the_error_names_the_versions_that_have_a_method() -> None:
    async with hosting(Scripted(), dialects=ALL) as host:
        for old, declared, versions in ((False, "0.3", "1.0"), (True, "1.0", "0.3 and 0.2.5")):
            answer = await ask(host, RPC.send(old=old, version=declared))
            text = f"this is a method of {versions}, and the request declares version {declared}"
            assert answer.json()["error"]["message"] == text


@both
@pytest.mark.parametrize("lenient", [False, True])
async def test_an_unknown_version(binding: Variant, lenient: bool) -> None:
    for version in ("2.0", "0.1", "x", "1.7"):
        said = await spoken(binding, ALL, old=False, version=version, lenient=lenient)
        assert said.startswith("VERSION_NOT_SUPPORTED")


async def test_a_rejection_lists_the_served_versions() -> None:
    for dialects, old in ((ALL, False), ((OLD, OLDER), True)):
        async with hosting(Scripted(), dialects=dialects) as host:
            tree = (await ask(host, REST.send(old=True, version="0.1"))).json()
        assert ("message" in tree) == old
        offered = ", ".join(dialect.version for dialect in dialects)
        assert tree["error"]["details"][0]["metadata"] == {"supportedVersions": offered}


@both
async def test_unknown_methods(binding: Variant) -> None:
    async with hosting(Scripted(), dialects=ALL) as host:
        for version, old in (("", True), ("0.3", True), ("0.2.5", True), ("1.0", False)):
            raw = (
                request("POST", "/", frame("tasks/nothing", {}), version=version)
                if binding == RPC
                else request("GET", "/v1/nothing", version=version)
            )
            answer = await ask(host, raw)
            assert (binding.reason(answer), binding.is_old(answer)) == ("METHOD_NOT_FOUND", old)
            assert answer.status == (200 if binding == RPC else 404)


@both
async def test_unreadable_requests_are_answered_in_the_form_of_old_callers(binding: Variant) -> None:
    path = "/" if binding == RPC else "/v1/message:send"
    async with hosting(Scripted(), dialects=ALL) as host:
        for version, text in (("", "Invalid JSON payload"), ("1.0", "")):
            tree = (await ask(host, request("POST", path, b"{", version=version))).json()
            error = tree["error"]
            assert error["code"] == (-32700 if binding == RPC else 400)
            if binding == RPC:
                assert ("data" in error) == (version == "1.0")
            elif not text:
                assert "message" not in tree


async def test_the_version_in_the_query_chooses() -> None:
    service = Scripted()
    async with hosting(service, dialects=ALL) as host:
        body = frame("message/send", {"message": MESSAGE})
        await ask(host, request("POST", "/?A2A-Version=0.2.5", body, version=""))
    assert service.calls[0].context.origin.version == "0.2.5"


async def test_old_answers_are_application_json() -> None:
    async with hosting(Scripted(), dialects=ALL) as host:
        for old, media in ((True, "application/json"), (False, "application/a2a+json")):
            asked = REST.send(old=old, version="" if old else "1.0", Accept="application/a2a+json")
            assert (await ask(host, asked)).headers["content-type"] == media


async def test_old_statuses_and_bodies() -> None:
    async with hosting(
        Scripted(on_unary=answering(A2AError(Reason.TASK_NOT_CANCELABLE))), dialects=ALL
    ) as host:
        answer = await ask(host, REST.send(old=True))
        assert (answer.status, answer.json()["message"]) == (409, "Task cannot be canceled")
        assert answer.json()["error"]["code"] == 409
        answer = await ask(host, RPC.send(old=True))
        assert answer.json() == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32002, "message": "Task cannot be canceled"},
        }


@both
async def test_an_error_inside_an_old_stream(binding: Variant) -> None:
    path = "/" if binding == RPC else "/v1/message:stream"
    body = frame("message/stream", {"message": MESSAGE}) if binding == RPC else {"message": MESSAGE}
    raw = body if isinstance(body, bytes) else json.dumps(body)
    async with hosting(
        Scripted(on_stream=yielding(update("one"), A2AError(Reason.UNAVAILABLE, "later"))), dialects=ALL
    ) as host:
        answer = await ask(host, request("POST", path, raw, version=""))
        *_, last = answer.body.decode().strip().split("\n\n")
        tree = json.loads(last.partition("data: ")[2])
        assert tree["error"]["message"] == "later"
        assert ("id" in tree) == (binding == RPC)
        assert ("message" in tree) == (binding == REST)
        url = f"http://{host.address}"
        async with dialling(url, binding.kind, dialect=OLD) as near:
            got = near.stream(Call(ops.SEND_STREAMING_MESSAGE, _message(), CallContext()))
            assert (await anext(got)).message == update("one")
            with pytest.raises(A2AError) as caught:
                await anext(got)
            assert (caught.value.reason, caught.value.message) == (Reason.UNAVAILABLE, "later")


async def test_delete_has_a_result_of_null() -> None:
    async with hosting(Scripted(), dialects=ALL) as host:
        raw = frame("tasks/pushNotificationConfig/delete", {"taskId": "t", "id": "c"})
        answer = await ask(host, request("POST", "/", raw, version=""))
        assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": None}


ONE, TWO = "https://e.example/1", "https://e.example/2"


@both
@pytest.mark.parametrize("version", ["", "1.0"])
@pytest.mark.parametrize(
    ("sent", "seen", "echoed"),
    [
        ({"X_A2A_Extensions": f"{ONE}, {TWO}"}, (ONE, TWO), {"x-a2a-extensions"}),
        ({"A2A_Extensions": f"{ONE},{TWO}"}, (ONE, TWO), {"a2a-extensions"}),
        (
            {"A2A_Extensions": f"{TWO}, {ONE}", "X_A2A_Extensions": f"{ONE},{ONE}"},
            (TWO, ONE),
            {"a2a-extensions", "x-a2a-extensions"},
        ),
    ],
)
async def test_extensions_under_either_name(
    binding: Variant, version: str, sent: dict[str, str], seen: tuple[str, ...], echoed: set[str]
) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = ONE
        return hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    service = Scripted(on_unary=unary)
    async with hosting(service, dialects=ALL) as host:
        answer = await ask(host, binding.get(old=not version, version=version, **sent))
    assert service.calls[0].context.extensions == seen
    names = {name for name in answer.headers if "extensions" in name}
    assert (names, {answer.headers[name] for name in names}) == (echoed, {ONE})


@both
async def test_who_named_no_extension_gets_the_names_of_its_version(binding: Variant) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = ONE
        return hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    async with hosting(Scripted(on_unary=unary), dialects=ALL) as host:
        for version, expected in (("", {"a2a-extensions", "x-a2a-extensions"}), ("1.0", {"a2a-extensions"})):
            answer = await ask(host, binding.get(old=not version, version=version))
            assert {name for name in answer.headers if "extensions" in name} == expected


@both
@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (V1_0, {"a2a-version": "1.0", "a2a-extensions": ONE}),
        (OLD, {"a2a-extensions": ONE, "x-a2a-extensions": ONE}),
    ],
)
async def test_declared_versions_of_clients(
    binding: Variant, dialect: Dialect, expected: dict[str, str]
) -> None:
    service = Scripted()
    context = CallContext(parameters={"a2a-extensions": ONE, "a2a-version": "9.9"})
    async with (
        hosting(service, dialects=ALL) as host,
        dialling(f"http://{host.address}", binding.kind, dialect=dialect) as near,
    ):
        await near.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
    got = service.calls[0].context
    assert {name: value for name, value in got.parameters.items() if "a2a" in name} == expected
    assert (got.extensions, got.origin.version) == ((ONE,), dialect.version)


def _message() -> hub.SendMessageRequest:
    part = hub.Part(text="hello")
    return hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part]))


def noting() -> Scripted:
    """A service that answers with a note."""

    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply.side_channel = "from the agent"
        return hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    return Scripted(on_unary=unary)


@both
async def test_side_content_of_an_old_request(binding: Variant) -> None:
    service = noting()
    async with hosting(service, dialects=ALL) as host:
        answer = await ask(host, binding.get("from-the-caller"))
    assert service.calls[0].context.side_channel == "from-the-caller"
    assert SIDE_CHANNEL not in dict(service.calls[0].context.parameters)
    assert service.calls[0].context.parameters["host"] == "x"
    assert binding.result(answer)["note"] == "from the agent"
    assert SIDE_CHANNEL not in answer.headers


@both
async def test_callers_forge_nothing(binding: Variant) -> None:
    service = Scripted()
    async with hosting(service, dialects=ALL) as host:
        forged = {"X_A2A_Bridge_Aside": "forged"}
        await ask(host, binding.get(**forged))
        await ask(host, binding.get("real", **forged))
        await ask(host, binding.send(old=True, **forged))
        await ask(host, binding.get(old=False, version="1.0", **forged))
    got = [call.context.side_channel for call in service.calls]
    assert got == ["", "real", "", ""]
    assert SIDE_CHANNEL not in dict(service.calls[0].context.parameters)
    assert len(service.calls[0].context.parameters) == len(dict(service.calls[0].context.parameters))


@both
async def test_old_clients_say_it_in_the_message_and_new_ones_beside_it(binding: Variant) -> None:
    for dialect in (OLD, V1_0):
        service = noting()
        context = CallContext(side_channel="from-the-caller")
        frames: list[Any] = []
        async with (
            hosting(service, dialects=ALL) as host,
            dialling(
                f"http://{host.address}",
                binding.kind,
                DialOptions(frame_observer=frames.append),
                dialect=dialect,
            ) as near,
        ):
            await near.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
        assert service.calls[0].context.side_channel == "from-the-caller"
        assert context.reply.side_channel == "from the agent"
        named = {name.lower() for one in frames for name, _ in one.headers}
        assert (SIDE_CHANNEL in named) == (dialect is V1_0)


@both
async def test_side_content_of_messages_crosses_two_bridges(binding: Variant) -> None:
    agent = noting()
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(hosting(agent, dialects=(OLD,)))
        to_far = await stack.enter_async_context(dialling(f"http://{far.address}", binding.kind, dialect=OLD))
        middle = await stack.enter_async_context(hosting(to_far, dialects=(V1_0,)))
        to_middle = await stack.enter_async_context(dialling(f"http://{middle.address}", binding.kind))
        near = await stack.enter_async_context(hosting(to_middle, dialects=(OLD,)))
        answer = await ask(near, binding.get("a-note"))
    assert agent.calls[0].context.side_channel == "a-note"
    assert binding.result(answer)["note"] == "from the agent"


@both
async def test_an_old_agent_cannot_speak_to_the_bridge_in_headers(binding: Variant) -> None:
    service, context = noting(), CallContext()
    old_errors = Dialect(
        "0.3", V1_0.card, {**V1_0.forms}, declares=False, extensions=OLD.extensions
    )  # speaks 1.0's messages, but its profile is not that of 1.0
    async with (
        hosting(service, dialects=(V1_0,), options=HostOptions(lenient_versions=True)) as host,
        dialling(f"http://{host.address}", binding.kind, dialect=old_errors) as near,
    ):
        await near.unary(Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), context))
    assert (context.reply, context.reply.side_channel) == ({}, "")


@pytest.mark.parametrize("version", ["0.3", "0.2.5", "1.0", "0.9"])
async def test_a_service_may_override_the_version_of_its_caller(version: str) -> None:
    async def unary(call: Call[Any, Any]) -> Any:
        call.context.reply.version = version
        if call.request.id == "t":
            raise A2AError(Reason.TASK_NOT_FOUND)
        return hub.Task(id="x", status=hub.TaskStatus(state=hub.TASK_STATE_WORKING))

    async def stream(call: Call[Any, Any]) -> Any:
        call.context.reply.version = version
        yield update("one")
        raise A2AError(Reason.TASK_NOT_FOUND)

    def respelt(dialect: Dialect) -> Dialect:
        form = dialect.forms[JSONRPC]
        rows = [
            replace(row, encode_response=lambda _: {"spelt": dialect.version})
            for row in form.rows
            if row.address != "GET"
        ]
        named = replace(
            form, rows=tuple(rows), encode_error=lambda _: ErrorReply(200, {"spelt": dialect.version})
        )
        return replace(dialect, forms={JSONRPC: named})

    expected = {"spelt": version if version in ("0.3", "0.2.5") else "0.3"}
    host = HttpHost(ListenAddress(), HostOptions())
    service = Scripted(on_unary=unary, on_stream=stream)
    BINDINGS["JSONRPC"].mount(host, "", service, [respelt(OLD), respelt(OLDER)])
    await host.start()
    try:
        for id_, member in (("x", "result"), ("t", "error")):
            answer = await ask(host, request("POST", "/", frame("tasks/get", {"id": id_}), version=""))
            assert answer.json()[member] == expected
        raw = request("POST", "/", frame("tasks/resubscribe", {"id": "x"}), version="")
        answer = await ask(host, raw)
        events = [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line]
        assert [event.get("result", event.get("error")) for event in events] == [expected] * 2
    finally:
        await host.drain(0)


CARD_PATH = "/agent/authenticatedExtendedCard"


def carded(answer: Any) -> Scripted:
    async def unary(_: Call[Any, Any]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Scripted(on_unary=unary)


@pytest.mark.parametrize(("path", "where"), [("", CARD_PATH), ("/a", CARD_PATH), ("/a/b", "/a" + CARD_PATH)])
async def test_the_old_extended_card_is_a_document(path: str, where: str) -> None:
    card = hub.AgentCard(name="extended", capabilities=hub.AgentCapabilities())
    service = carded(card)
    async with hosting(service, path=path, dialects=ALL) as host:
        for asked in (where, where + "/"):
            answer = await ask(host, request("GET", asked, version=""))
            assert (answer.status, answer.json()["name"]) == (200, "extended")
            assert answer.headers["content-type"] == "application/json"
        assert service.calls[0].context.origin.version == "0.2.5"
        async with dialling(f"http://{host.address}{path}", "JSONRPC", dialect=OLDER) as near:
            got = await near.unary(
                Call(ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), CallContext())
            )
        assert got == card
        posted = frame("GET .." + CARD_PATH, {})
        answer = await ask(host, request("POST", path or "/", posted, version="0.2.5"))
        assert answer.json()["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, 404),
        (Reason.UNSUPPORTED_OPERATION, 404),
        (Reason.UNAUTHENTICATED, 401),
        (Reason.PERMISSION_DENIED, 403),
        (Reason.UNAVAILABLE, 503),
        (Reason.INTERNAL_ERROR, 500),
    ],
)
async def test_the_statuses_of_the_document(reason: Reason, status: int) -> None:
    async with hosting(carded(A2AError(reason)), dialects=ALL) as host:
        answer = await ask(host, request("GET", CARD_PATH, version=""))
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
        async with dialling(f"http://{host.address}/", "JSONRPC", dialect=OLDER) as near:
            with pytest.raises(A2AError) as caught:
                await near.unary(
                    Call(ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), CallContext())
                )
    assert caught.value.reason is reason


async def test_a_document_path_of_two_agents_is_not_served() -> None:
    host = HttpHost(ListenAddress(), HostOptions())
    for path, name in (("/a", "one"), ("/b", "two"), ("/c", "three"), ("/x/y", "other")):
        service = carded(hub.AgentCard(name=name, capabilities=hub.AgentCapabilities()))
        BINDINGS["JSONRPC"].mount(host, path, service, [OLDER])
    await host.start()
    try:
        assert (await ask(host, request("GET", CARD_PATH))).status == 404
        assert (await ask(host, request("GET", "/x" + CARD_PATH))).json()["name"] == "other"
    finally:
        await host.drain(0)


async def test_explicit_mounts_have_priority() -> None:
    for host in (HttpHost(ListenAddress(), HostOptions()), AsgiHost(HostOptions())):
        host.publish(CARD_PATH, lambda _: b"{}")
        BINDINGS["JSONRPC"].mount(host, "/a", Scripted(), [OLDER])
        BINDINGS["JSONRPC"].mount(host, "/x/y", Scripted(), [OLDER])
        host.publish("/x" + CARD_PATH, lambda _: b"{}")
        with pytest.raises(ValueError, match="already"):
            host.publish(CARD_PATH, lambda _: b"{}")


@each("data", [b"null", b"[]", b'"text"', b"1.1", b"1E400", b'{"a":[1.0,{"b":"\\ud800"}]}'])
@each("way", ["JSONRPC", "HTTP+JSON"])
async def test_data_of_an_error_crosses_a_bridge_as_it_was_written(data: bytes, way: str) -> None:
    body = b'{"code":-32001,"message":"Task not found","data":%b}' % data

    def answer(_first: str, _headers: dict[str, str], asked: bytes) -> bytes:
        return http(b'{"jsonrpc":"2.0","id":%d,"error":%b}' % (json.loads(asked)["id"], body))

    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(peering(answer))
        to_far = await stack.enter_async_context(dialling(far.url, "JSONRPC", dialect=OLD))
        middle = await stack.enter_async_context(hosting(to_far, dialects=ALL))
        to_middle = await stack.enter_async_context(dialling(f"http://{middle.address}", way))
        near = await stack.enter_async_context(hosting(to_middle, dialects=ALL))
        answered = await ask(near, RPC.get())
    assert answered.body == b'{"jsonrpc":"2.0","id":1,"error":%b}' % body
