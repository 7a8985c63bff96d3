"""Hypothesis strategies for protobuf messages, made from their descriptors."""

from functools import cache
from typing import Any, TypeVar

from google.protobuf.message import Message
from hypothesis import strategies as st

from a2a_bridge.codec import Json, decoder
from a2a_bridge.codec.plan import FieldKind, FieldPlan, MessagePlan, plan_of
from a2a_bridge.codec.values import FIRST_SECOND, LAST_SECOND
from a2a_bridge.pb.google_protobuf import ListValue, Struct, Timestamp, Value

M = TypeVar("M", bound=Message)

MOST_ITEMS = 3
"""Maximum items of a repeated field or a map."""
LONGEST = 12
"""Maximum length of a string (characters) or of a bytes value."""
MOST_LEAVES = 6
"""Maximum plain values inside one Struct or Value."""
DEEPEST = 6
"""Maximum depth of messages, for types that contain themselves."""


# Each strategy is made once: Hypothesis checks a new one at its first draw, which takes longer than the draw.


@cache
def texts() -> st.SearchStrategy[str]:
    """Strings that protobuf can carry: any Unicode but surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=LONGEST)


@cache
def json_values() -> st.SearchStrategy[Json]:
    """JSON values that survive a Value: integers only up to the precision of a double."""
    numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(
        allow_nan=False, allow_infinity=False, min_value=-(2.0**62), max_value=2.0**62
    )
    plain = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=MOST_ITEMS) | st.dictionaries(texts(), inner, max_size=MOST_ITEMS)
        ),
        max_leaves=MOST_LEAVES,
    )


def messages(cls: type[M], *, complete: bool = False) -> st.SearchStrategy[M]:
    """Messages of a class with any fields. complete: as servers accept them: REQUIRED members, content."""
    return _strategy(plan_of(cls), DEEPEST, complete=complete)


@cache
def _strategy(plan: MessagePlan, levels: int, *, complete: bool) -> st.SearchStrategy[Any]:
    if plan.kind is FieldKind.MESSAGE:
        return _message(plan, levels, complete=complete)
    return _build_strategy(plan.kind)


@st.composite
def _message(draw: st.DrawFn, plan: MessagePlan, levels: int, *, complete: bool) -> Any:
    message: Any = plan.cls()
    chosen = {oneof: draw(names) for oneof, names in _choices(plan, complete=complete).items()}
    for field in plan.fields:
        must = complete and field.required
        in_turn = field.oneof is None and (must or draw(st.booleans()))
        wanted = in_turn or (field.oneof is not None and chosen[field.oneof] == field.name)
        nested = (field.map_value or field).message
        if wanted and (levels or nested is None or nested.kind is not FieldKind.MESSAGE):
            _fill(draw, message, field, levels - 1, must=must, complete=complete)
    return message


@cache
def _choices(plan: MessagePlan, *, complete: bool) -> dict[str, st.SearchStrategy[str | None]]:
    """By oneof: the name of the field to set, or None."""
    found: dict[str, st.SearchStrategy[str | None]] = {}
    for oneof in dict.fromkeys(field.oneof for field in plan.fields if field.oneof is not None):
        names = [field.name for field in plan.fields if field.oneof == oneof]
        must = complete and oneof in plan.required_oneofs
        found[oneof] = st.sampled_from(names if must else [*names, None])
    return found


def _fill(
    draw: st.DrawFn, message: Any, field: FieldPlan, levels: int, *, must: bool, complete: bool
) -> None:
    if field.map_value is not None:
        target = getattr(message, field.name)
        for key in draw(_keys()):
            value = draw(_value(field.map_value, levels, must=False, complete=complete))
            if isinstance(value, Message):
                target[key].CopyFrom(value)
            else:
                target[key] = value
        return
    if field.repeated:
        getattr(message, field.name).extend(draw(_items(field, levels, must=must, complete=complete)))
        return
    value = draw(_value(field, levels, must=must, complete=complete))
    if isinstance(value, Message):
        getattr(message, field.name).CopyFrom(value)
        getattr(message, field.name).SetInParent()  # sets an empty one as well
    else:
        setattr(message, field.name, value)


@cache
def _keys() -> st.SearchStrategy[list[str]]:
    return st.lists(texts(), max_size=MOST_ITEMS, unique=True)


@cache
def _items(field: FieldPlan, levels: int, *, must: bool, complete: bool) -> st.SearchStrategy[list[Any]]:
    values = _value(field, levels, must=must, complete=complete)
    return st.lists(values, min_size=int(must), max_size=MOST_ITEMS)


@cache
def _value(field: FieldPlan, levels: int, *, must: bool, complete: bool) -> st.SearchStrategy[Any]:
    match field.kind:
        case FieldKind.STRING:
            return texts().filter(bool) if must else texts()
        case FieldKind.BYTES:
            return st.binary(max_size=LONGEST)
        case FieldKind.BOOL:
            return st.booleans()
        case FieldKind.INTEGER:
            return st.integers(field.low, field.high)
        case FieldKind.ENUM:
            numbers = sorted(field.enum.names) if field.enum is not None else []
            return st.sampled_from([number for number in numbers if number or not must])
    if field.kind is FieldKind.MESSAGE and field.message is not None:
        return _strategy(field.message, levels, complete=complete)
    return _build_strategy(field.kind)


@cache
def _build_strategy(kind: FieldKind) -> st.SearchStrategy[Any]:
    match kind:
        case FieldKind.TIMESTAMP:
            seconds, nanos = st.integers(FIRST_SECOND, LAST_SECOND), st.integers(0, 999_999_999)
            return st.builds(Timestamp, seconds=seconds, nanos=st.just(0) | nanos)
        case FieldKind.STRUCT:
            return st.dictionaries(texts(), json_values(), max_size=MOST_ITEMS).map(decoder(Struct))
        case FieldKind.LIST:
            return st.lists(json_values(), max_size=MOST_ITEMS).map(decoder(ListValue))
    return json_values().map(decoder(Value))
