"""Messages made from their descriptors, full and minimal. New members of the protocol are in them at once."""

from typing import Any, TypeVar

from google.protobuf.message import Message

from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.core.errors import A2AError, Reason, Violation

M = TypeVar("M", bound=Message)

_STRUCT = {
    "text": "é ✓ 😀",
    "number": 7,
    "half": -0.5,
    "huge": 1e300,
    "list": [None, True, {"deep": []}],
    "none": {},
}


def samples(cls: type[M]) -> list[M]:
    """A full and a minimal sample of a class; if it has a oneof, for each of its members."""
    choices = _choices(plan_of(cls))
    return [make(cls, choice) for make in (full, minimal) for choice in choices]


def full(cls: type[M], choice: str = "") -> M:
    """A sample with every member set; of a oneof, `choice` or its first member."""
    message = cls()
    _fill(message, choice, required_only=False)
    return message


def minimal(cls: type[M], choice: str = "") -> M:
    """A sample with only REQUIRED members at every depth, and `choice`, or the first, of a required oneof."""
    message = cls()
    payload = cls.DESCRIPTOR.oneofs_by_name.get("payload")
    _fill(message, choice or (payload.fields[0].name if payload is not None else ""), required_only=True)
    return message


def every_error() -> list[A2AError]:
    """One error of each Reason, with violations, metadata, and a detail that only the sender knows."""
    return [
        A2AError(
            reason,
            f"{reason.name}: é ✓",
            violations=[Violation("message.parts[0]", "is é ✓"), Violation("", "as a whole")],
            metadata={"taskId": "t-1", "text": "é ✓"},
            details=[
                {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"n": 7, "list": [None]}}
            ],
            retry_after=2.5 if reason in (Reason.UNAVAILABLE, Reason.RESOURCE_EXHAUSTED) else None,
        )
        for reason in Reason
    ]


def _fill(message: Any, choice: str, *, required_only: bool) -> None:
    plan = plan_of(type(message))
    if plan.kind is FieldKind.STRUCT:
        message.update({} if required_only else _STRUCT)
    elif plan.kind is FieldKind.VALUE:
        message.struct_value.update(_STRUCT)
    elif plan.kind is FieldKind.TIMESTAMP:
        message.FromNanoseconds(1_700_000_000_123_456_789)
    for field in plan.fields:
        chosen = choice or next(iter(_choices(plan)))
        wanted = field.required or not required_only or field.oneof in plan.required_oneofs
        if (wanted and field.oneof is None) or (field.name == chosen and (wanted or choice)):
            _set(message, field, required_only=required_only)


def _set(message: Any, field: FieldPlan, *, required_only: bool) -> None:
    member = getattr(message, field.name)
    if field.map_value is not None:
        if field.map_value.message is None:
            member[f"{field.name} é"] = _scalar(field.map_value)
        else:
            for index, choice in enumerate(_choices(field.map_value.message)):
                _fill(member[f"{field.name}-{index}"], choice, required_only=required_only)
    elif field.message is not None and field.repeated:
        for choice in _choices(field.message)[: 1 if required_only else None]:
            _fill(member.add(), choice, required_only=required_only)
    elif field.message is not None:
        member.SetInParent()
        _fill(member, "", required_only=required_only)
    elif field.repeated:
        member.extend([_scalar(field), _scalar(field)])
    else:
        setattr(message, field.name, _scalar(field))


def _choices(plan: MessagePlan) -> list[str]:
    """The members of a message's oneof, so that a list of such messages can hold each once."""
    return [field.name for field in plan.fields if field.oneof is not None] or [""]


def _scalar(field: FieldPlan) -> Any:
    if field.kind is FieldKind.STRING:
        return f"{field.name} é✓😀"
    if field.kind is FieldKind.BYTES:
        return bytes(range(256))
    if field.enum is not None:
        return max(field.enum.names)
    return field.kind is FieldKind.BOOL or 7
