"""google.rpc.Status ↔ a list of ProtoJSON Any objects. It knows types, not their meaning.

A type that is not in the pool cannot be translated between protobuf and JSON. From protobuf it becomes
`{"@type": …, "value": base64}`, from JSON a Struct of the whole object: nothing is dropped.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from a2a_bridge import codec
from a2a_bridge.core.errors import GrpcStatus
from a2a_bridge.pb import google_rpc
from a2a_bridge.pb.google_protobuf import Any as AnyMessage
from a2a_bridge.pb.google_protobuf import Struct, Value

PREFIX = "type.googleapis.com/"
ERROR_INFO = PREFIX + "google.rpc.ErrorInfo"
BAD_REQUEST = PREFIX + "google.rpc.BadRequest"
RETRY_INFO = PREFIX + "google.rpc.RetryInfo"

_KNOWN: dict[str, type[Message]] = {
    cls.DESCRIPTOR.full_name: cls
    for cls in (
        google_rpc.ErrorInfo,
        google_rpc.BadRequest,
        google_rpc.DebugInfo,
        google_rpc.QuotaFailure,
        google_rpc.PreconditionFailure,
        google_rpc.RequestInfo,
        google_rpc.ResourceInfo,
        google_rpc.Help,
        google_rpc.LocalizedMessage,
        Struct,
        Value,
    )
}
#: types whose JSON is not an object of its members, so that Any keeps it under "value"
_WRAPPED = frozenset({"google.protobuf.Struct", "google.protobuf.Value"})


def value(data: Any) -> dict[str, Any]:
    """Any JSON value as a detail."""
    return {"@type": PREFIX + "google.protobuf.Value", "value": data}


def list_objects(error: Mapping[str, Any]) -> list[Any]:
    """The details of an `error` object over HTTP. Items that are no objects are left out."""
    found = error.get("details")
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def status(code: GrpcStatus, message: str, details: list[Any]) -> bytes:
    """A serialized google.rpc.Status."""
    packed = [_pack(detail) for detail in details]
    return google_rpc.Status(code=int(code), message=message, details=packed).SerializeToString()


def parse_status(data: bytes) -> tuple[str, list[Any]]:
    """(message, details) of a serialized google.rpc.Status; empty if the bytes are not one."""
    try:
        parsed = google_rpc.Status.FromString(data)
    except ProtobufDecodeError:
        return "", []
    return parsed.message, [_unpack(detail) for detail in parsed.details]


def _pack(detail: Mapping[str, Any]) -> AnyMessage:
    url = str(detail.get("@type", ""))
    name = url.rpartition("/")[2]
    if url == RETRY_INFO:
        return AnyMessage(type_url=url, value=_retry_info(str(detail.get("retryDelay", ""))))
    cls = _KNOWN.get(name)
    body: Any = {key: item for key, item in detail.items() if key != "@type"}
    if cls is not None:
        try:
            message = codec.decoder(cls)(body.get("value") if name in _WRAPPED else body)
            return AnyMessage(type_url=url, value=message.SerializeToString())
        except codec.DecodeError:
            cls = None  # not of the declared type: preserved unchanged, below
    elif body.keys() == {"value"} and isinstance(body["value"], str):
        try:
            return AnyMessage(type_url=url, value=base64.b64decode(body["value"], validate=True))
        except binascii.Error:
            cls = None
    return AnyMessage(type_url=PREFIX + "google.protobuf.Struct", value=_struct(detail))


def _struct(detail: Mapping[str, Any]) -> bytes:
    """The whole detail as a Struct; as text if protobuf cannot carry it (depth, a number out of range)."""
    try:
        whole = codec.decoder(Struct)(dict(detail))
    except codec.DecodeError:
        text = codec.dumps(dict(detail)).decode()
        whole = codec.decoder(Struct)({"@type": str(detail.get("@type", "")), "json": text})
    return whole.SerializeToString()


def _unpack(detail: AnyMessage) -> dict[str, Any]:
    name = detail.type_url.rpartition("/")[2]
    if name == "google.rpc.RetryInfo":
        return {"@type": RETRY_INFO, "retryDelay": _retry_delay(detail.value)}
    cls = _KNOWN.get(name)
    if cls is not None:
        try:
            tree = codec.encoder(cls)(cls.FromString(detail.value))
        except (ProtobufDecodeError, codec.EncodeError):
            return {"@type": detail.type_url, "value": base64.b64encode(detail.value).decode()}
        if name in _WRAPPED:
            if name.endswith("Struct") and isinstance(tree, dict) and "@type" in tree:
                return tree
            return {"@type": detail.type_url, "value": tree}
        return {"@type": detail.type_url, **tree}
    return {"@type": detail.type_url, "value": base64.b64encode(detail.value).decode()}


# The codec has no rule for Duration, which can occur only here in A2A.
def _retry_info(text: str) -> bytes:
    info = google_rpc.RetryInfo()
    try:
        info.retry_delay.FromJsonString(text)
    except ValueError:
        info.ClearField("retry_delay")
    return info.SerializeToString()


def _retry_delay(data: bytes) -> str:
    try:
        return google_rpc.RetryInfo.FromString(data).retry_delay.ToJsonString()
    except (ProtobufDecodeError, ValueError):
        return "0s"
