"""The tables of docs/reference/wire.md are those of the code."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, fields
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import DialOptions, HostOptions
from a2a_bridge.codec import DecodeError, decode_bytes
from a2a_bridge.core.errors import A2AError, GrpcStatus, Reason
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_3, V1_0
from a2a_bridge.dialects.v1_0.forms import SERVICE
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.docs.pages import DOCS, section, table

PAGE = DOCS / "reference/wire.md"
LIMITS = section(PAGE, "Limits and defaults")


def test_the_errors() -> None:
    said = table(section(PAGE, "Errors"), "reason", "JSON-RPC", "gRPC", "HTTP+JSON")
    assert said == [
        [
            reason.name,
            str(reason.code),
            f"{reason.grpc.name} ({int(reason.grpc)})",
            str(reason.http),
            str(reason.jsonrpc_http),
            reason.text,
        ]
        for reason in Reason
    ]


def test_the_statuses_of_0_3() -> None:
    said = table(section(PAGE, "Errors"), "reason", "gRPC of 0.3", "declared")
    encoders = [V0_3.forms[GRPC].encoder(declared=declared) for declared in (False, True)]
    statuses = {
        reason.name: [GrpcStatus(encode(A2AError(reason)).status).name for encode in encoders]
        for reason in Reason
    }
    assert said == [[name, *both] for name, both in statuses.items() if both[0] != both[1]]


def test_the_methods_of_jsonrpc() -> None:
    text = section(PAGE, "JSON-RPC")
    assert all(f"`{row.address}`" in text for row in V1_0.forms[JSONRPC].rows)


def test_the_paths() -> None:
    said = {tuple(row) for row in table(section(PAGE, "HTTP+JSON"), "operation", "method", "path")}
    rules = {
        (row.operation.name, rule.method, rule.template)
        for row in V1_0.forms[HTTP_JSON].rows
        for rule in row.address.rules
    }
    plain = {rule for rule in rules if not rule[2].startswith("/{tenant}/")}
    assert said == plain
    assert rules - plain == {(name, method, f"/{{tenant}}{path}") for name, method, path in plain}


def test_the_names() -> None:
    text = PAGE.read_text()
    assert f"`{SERVICE.full_name}`" in text
    assert all(f"`{path}`" in text for path in V1_0.card.paths)
    assert V1_0.version == "1.0"


def shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    return str(value)


@pytest.mark.parametrize("options", [HostOptions, DialOptions, ServeOptions])
def test_the_options(options: Any) -> None:
    said = {row[0]: row[1] for row in table(LIMITS, options.__name__, "default")}
    real = {}
    for field in fields(options):
        if dataclasses.is_dataclass(field.default_factory) and field.name not in ("http", "grpc"):
            # Has a table of its own, here or in limits.md.
            continue
        factory = field.default_factory
        real[field.name] = shown(field.default if factory is MISSING else factory())
    assert said == real


def nested(kind: str, levels: int) -> str:
    opening, closing = {"object": ('{"a":', "}"), "array": ("[", "]")}[kind]
    return opening * levels + "1" + closing * levels


@pytest.mark.parametrize(
    ("member", "kind", "levels"),
    [("metadata", "object", 30), ("metadata", "array", 43), ("data", "object", 30), ("data", "array", 43)],
)
def test_the_depth_of_free_json(member: str, kind: str, levels: int) -> None:
    assert f"{levels}" in section(PAGE, "JSON")

    def message(depth: int) -> str:
        if member == "metadata":
            held = nested(kind, depth) if kind == "object" else f'{{"x":{nested(kind, depth)}}}'
            return f'{{"metadata":{held}}}'
        return f'{{"parts":[{{"data":{nested(kind, depth)}}}]}}'

    decode_bytes(hub.Message, message(levels))
    with pytest.raises(DecodeError):
        decode_bytes(hub.Message, message(levels + 1))
