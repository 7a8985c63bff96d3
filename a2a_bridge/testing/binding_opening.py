"""Mounts and dials the binding under test for the parts of BindingContract. No tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_bridge.bindings.binding import Binding, DialOptions, Host, HostOptions, ListenAddress
from a2a_bridge.core import operations as ops
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.service_contract import ServiceContract, names

KIB = 1024
#: maximum bytes that a server and the kernel may hold for a stalled reader
STALLED_BYTES = 24 * KIB * KIB

BOTH: list[ops.Operation[Any, Any]] = [ops.GET_TASK, ops.SUBSCRIBE_TO_TASK]
both = pytest.mark.parametrize("operation", BOTH, ids=names(BOTH))


@dataclass(frozen=True)
class Listening:
    """A started host and the interface to dial."""

    host: Host
    interface: hub.AgentInterface


class OpensBindings(ServiceContract):
    """Opens the binding under test.

    dialect: the version of the calls; it needs a form for the binding's kind, or a canonical one. Operations
    it lacks are not tested, members it may lose not compared. paths: True if several services may be mounted
    on one host, each at its path. keep_alive: True if silence on a stream is filled, and a silent peer is
    detected (HostOptions, DialOptions). numbered: True if events are sent with their ids (`core.resume`).
    Otherwise events must not have ids. stalled_bytes: the most that server, kernel and client may hold for a
    stalled reader.
    """

    binding: Binding[Any]
    dialect: Dialect = V1_0
    paths: bool = True
    keep_alive: bool = True
    numbered: bool = True
    stalled_bytes: int = STALLED_BYTES

    def url(self, address: ListenAddress, path: str, /) -> str:
        """The URL of an interface mounted at `path` ("" for the root) of a host."""
        raise NotImplementedError

    def has(self, operation: ops.Operation[Any, Any]) -> bool:
        form = self.dialect.form(self.binding.kind)
        return form is not None and form.row(operation) is not None

    def certain(self, message: Any) -> Any:
        copy = type(message)()
        copy.CopyFrom(message)
        lost = [loss for loss in self.dialect.losses if loss.concerns(self.binding.kind.name)]
        _lose(copy, frozenset(loss.path for loss in lost))
        if isinstance(copy, hub.SendMessageRequest) and not copy.configuration.ListFields():
            # Clients write it out if the versions' defaults differ; its absence is sent beside it.
            copy.ClearField("configuration")
            if set(copy.metadata.fields) == {KEY}:
                copy.ClearField("metadata")
        return copy

    @asynccontextmanager
    async def listen(
        self,
        service: Service,
        options: HostOptions | None = None,
        dialects: Sequence[Dialect] = (),
    ) -> AsyncIterator[Listening]:
        """A host with `service` at its root, in the version of the calls unless `dialects` are given."""
        host = self.binding.host(ListenAddress(), options or HostOptions())
        self.binding.mount(host, "", service, dialects or [self.dialect])
        await host.start()
        try:
            yield Listening(host, self.interface(self.url(host.address, "")))
        finally:
            await host.drain(0)

    def interface(self, url: str, tenant: str = "") -> hub.AgentInterface:
        """An interface of this binding and dialect."""
        return hub.AgentInterface(
            url=url,
            protocol_binding=self.binding.kind.name,
            protocol_version=self.dialect.version,
            tenant=tenant,
        )

    def dial(
        self, interface: hub.AgentInterface, options: DialOptions | None = None
    ) -> AbstractAsyncContextManager[Service]:
        """A client side."""
        return self.binding.dial(interface, self.dialect, options or DialOptions())

    @asynccontextmanager
    async def serve(self, service: Service) -> AsyncIterator[Service]:
        async with self.listen(service) as there, self.dial(there.interface) as near:
            yield near


def message_of(size: int) -> hub.SendMessageRequest:
    """A message with a text of so many bytes."""
    part = hub.Part(text="x" * size)
    return hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part]))


def _lose(message: Any, paths: frozenset[str]) -> None:
    """Clears the members in `paths`, such as `GetTaskRequest.tenant`, at every depth."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.json_name}" in paths:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in [value] if isinstance(value, Message) else value:
                _lose(one, paths)
