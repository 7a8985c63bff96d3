"""The part of BindingContract about callers: they are identified, get answers in their version, and none
without TLS where the host has it.
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Any

from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V0_3, V1_0, BindingKind, Dialect, ErrorReply
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.binding_opening import OpensBindings, both
from a2a_bridge.testing.probe import Probe, answering
from a2a_bridge.testing.samples import every_error, full
from a2a_bridge.testing.service_contract import assert_same_error, failure, invoke


class AccessContract(OpensBindings):
    """Versions, callers, TLS."""

    async def test_the_origin_names_binding_version_and_peer(self, near: Service, probe: Probe) -> None:
        probe.on_unary = answering(full(hub.Task))
        await invoke(near, ops.GET_TASK, full(hub.GetTaskRequest))
        origin = probe.last.context.origin
        assert (origin.binding, origin.version) == (self.binding.kind.name, self.dialect.version)
        assert "127.0.0.1" in origin.peer

    async def test_callers_of_two_versions_are_answered_in_theirs(self, probe: Probe) -> None:
        other = V0_3 if self.dialect is V1_0 else V1_0
        if other.form(self.binding.kind) is None:
            other = _build_other(self.dialect, self.binding.kind)
        sent = every_error()[0]
        probe.on_unary = answering(sent)
        for dialects in ([self.dialect, other], [other, self.dialect]):
            async with self.listen(probe, dialects=dialects) as there:
                for dialect in dialects:
                    there.interface.protocol_version = dialect.version
                    async with self.binding.dial(there.interface, dialect, DialOptions()) as near:
                        assert_same_error(await failure(near, ops.GET_TASK), sent)
                    assert probe.last.context.origin.version == dialect.version

    @both
    async def test_callers_are_identified(self, probe: Probe, operation: Any) -> None:
        asked: list[tuple[str | None, str]] = []

        async def authenticate(presented: Presented) -> Principal:
            asked.append((presented.parameters.get("authorization"), presented.peer))
            return Principal("ann")

        probe.on_unary = answering(full(hub.Task))
        options = DialOptions(parameters={"authorization": "Bearer x"})
        async with (
            self.listen(probe, HostOptions(authenticate=authenticate)) as there,
            self.dial(there.interface, options) as near,
        ):
            await invoke(near, operation, full(operation.request))
        assert asked == [("Bearer x", "127.0.0.1")]
        assert probe.last.context.principal == Principal("ann")

    @both
    async def test_callers_that_are_not_identified_reach_nothing(self, probe: Probe, operation: Any) -> None:
        async def authenticate(_: Presented) -> Principal:
            raise UnauthenticatedError("who calls?")

        async with (
            self.listen(probe, HostOptions(authenticate=authenticate)) as there,
            self.dial(there.interface) as near,
        ):
            assert (await failure(near, operation)).reason is Reason.UNAUTHENTICATED
        assert not probe.calls

    async def test_no_listener_without_tls_stands_in_for_one_with_it(self, probe: Probe) -> None:
        options = HostOptions(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        try:
            host = self.binding.host(ListenAddress(), options)
        except (TypeError, ValueError):
            return  # it cannot use this one
        self.binding.mount(host, "", probe, [self.dialect])
        await host.start()
        try:
            async with self.dial(self.interface(self.url(host.address, ""))) as near:
                assert (await failure(near, ops.GET_TASK)).reason is Reason.UNAVAILABLE
        finally:
            await host.drain(0)
        assert not probe.calls


def _build_other(dialect: Dialect, kind: BindingKind[Any, Any]) -> Dialect:
    """A later version with other errors, for bindings that no second version knows."""
    form = dialect.form(kind)
    if form is None:
        raise LookupError(f"version {dialect.version} has no form for {kind.name}")

    def encode(error: A2AError) -> ErrorReply[Any]:
        reply = form.encode_error(error)
        return replace(reply, body={"other": reply.body})

    def decode(reply: ErrorReply[Any]) -> A2AError:
        body: Any = reply.body
        assert "other" in body, "an error in another version"
        return form.decode_error(replace(reply, body=body["other"]))

    made = replace(form, encode_error=encode, decode_error=decode)
    return replace(dialect, version="99.0", forms={**dialect.forms, kind: made})
