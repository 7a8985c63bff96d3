"""The parameter of the function of a decorated agent: the run, the text of the message, or a value of the
type of its parameter, which is read from the message's data part and whose JSON schema is in the card.

Rules:
1. Annotations decide, and without one the name `run`. The first positional parameter is passed, and with it
   the second one if one of the two is the run, and the other one the message.
2. An annotation that is no text and no Run is a type for pydantic. A type that cannot be read from JSON, or
   an annotation that cannot be resolved and would be misread, is rejected when the agent is made.
3. A value that does not fit is INVALID_PARAMS naming the member, before anything of the agent runs.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from a2a_bridge.codec import JsonObject, dumps, encoder
from a2a_bridge.core.errors import A2AError, Reason, Violation, invalid_params
from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Value

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

#: the extension of a card whose params are `{"schema": …}`, the JSON schema of the data part of a message
SCHEMA_URI = "urn:a2a-bridge:data-schema:v1"

#: the texts of an annotation with notes, and of a union that is not written with `|`
_ANNOTATED = re.compile(r"[\w.]*\bAnnotated\[(?P<type>[^,]*),.*\]", re.DOTALL)
_UNION = re.compile(r"[\w.]*\b(?:Optional|Union)\[(?P<members>.*)\]", re.DOTALL)
_QUOTES = "'\" "

#: annotations that mean the text of the message
_TEXTS = (str, Any, object)
#: violations in an error, at most
_MOST = 20

_tree_of = encoder(Value)


Arguments = tuple[Any, ...]


class Takes(NamedTuple):
    """The parameters of a function."""

    #: its arguments for a run; raises A2AError INVALID_PARAMS
    arguments: Callable[[Run], Arguments]
    #: the JSON schema of the data part that it takes; None if it takes none
    schema: JsonObject | None = None


def code_of(given: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a partial, or the method behind an object that can be called."""
    while isinstance(given, functools.partial):
        given = given.func
    return given if inspect.isroutine(given) else given.__call__  # type: ignore[operator]


def takes(function: Callable[..., Any]) -> Takes:
    """Raises TypeError for a function that takes more than the message, or what no message has."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    filled = _filled(positional)
    others = [
        repr(one.name)
        for one in parameters
        if one.default is one.empty
        and (one.kind is one.KEYWORD_ONLY or (one in positional and one not in filled))
    ]
    if others:
        name = getattr(code_of(function), "__qualname__", "the function")
        raise TypeError(
            f"{name} takes more than the message and its run: nobody fills {', '.join(others)}; write a"
            " default, or one parameter of a type with these members (a dataclass or a pydantic model),"
            " beside which `run: Run` may stand"
        )
    if not filled:
        return Takes(lambda _: ())
    message = next((one for one in filled if not _takes_run(one)), None)
    if message is None:
        return Takes(lambda run: (run,))
    taken = _takes_message(function, message)
    if len(filled) == 1:
        return taken

    def of_message(run: Run) -> Arguments:
        return taken.arguments(run) or (message.default,)

    if message is filled[0]:
        return Takes(lambda run: (*of_message(run), run), taken.schema)
    return Takes(lambda run: (run, *of_message(run)), taken.schema)


def _filled(positional: Sequence[inspect.Parameter]) -> Sequence[inspect.Parameter]:
    """The parameters that are passed: the first, and the second if it makes a message and its run of the two.
    A message beside the run has no default.
    """
    if len(positional) < 2:
        return positional
    first, second = positional[:2]
    is_run, is_also = _takes_run(first), _takes_run(second)
    both = is_run != is_also and (is_also or second.default is second.empty)
    return positional[: 1 + both]


def _takes_message(function: Callable[..., Any], parameter: inspect.Parameter) -> Takes:
    """The parameter that takes the message: its text, or its data part."""
    annotation = _resolve(function, parameter)
    if not _members(annotation) - {*_TEXTS, NoneType}:
        is_required = parameter.default is parameter.empty
        return Takes((lambda run: (run.text,)) if is_required else (lambda _: ()))
    typed = _Typed(parameter, annotation)
    return Takes(typed.arguments, typed.schema)


class _Typed:
    """A parameter whose value is read from a data part."""

    def __init__(self, parameter: inspect.Parameter, annotation: Any) -> None:
        # Here, because it costs 80 ms, and most agents have no such parameter.
        from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

        name = f"the parameter {parameter.name!r}"
        if bytes in _members(annotation):
            raise TypeError(f"{name}: JSON has no bytes; write `run: Run`, and read `run.parts`")
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)
            self.schema: JsonObject = self._adapter.json_schema()
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise TypeError(
                f"{name}: {annotation!r} cannot be read from JSON; write `run: Run`, and read `run.parts`, or"
                f" use a pydantic model, a dataclass, or a type of JSON ({str(error).partition(chr(10))[0]})"
            ) from error
        #: what it gets from a message without a data part; None if the message is rejected
        self._else: Callable[[Run], Arguments] | None = None
        if str in _members(annotation):
            self._else = lambda run: (run.text,)
        elif parameter.default is not parameter.empty:
            self._else = lambda _: ()

    def arguments(self, run: Run) -> Arguments:
        from pydantic import ValidationError

        found = [(at, part) for at, part in enumerate(run.parts[:]) if part.HasField("data")]
        if not found and self._else is not None:
            return self._else(run)
        if len(found) != 1:
            text = f"needs one data part, of the schema in the agent's card, and has {len(found)}"
            raise invalid_params("message.parts", text)
        ((at, part),) = found
        try:
            return (self._adapter.validate_json(dumps(_tree_of(part.data))),)
        except ValidationError as error:
            raise _reject(error, f"message.parts[{at}].data") from None


def describe(schema: JsonObject) -> hub.AgentExtension:
    """The extension of the card that holds the schema of the data part."""
    made = hub.AgentExtension(uri=SCHEMA_URI, description="The JSON schema of the data part of a message")
    made.params.update({"schema": schema})
    return made


def _reject(error: ValidationError, path: str) -> A2AError:
    problems = error.errors(include_url=False, include_context=False, include_input=False)[:_MOST]
    violations = [Violation(path + "".join(map(_step, one["loc"])), one["msg"]) for one in problems]
    text = "; ".join(f"{one.field}: {one.description}" for one in violations)
    return A2AError(Reason.INVALID_PARAMS, text, violations=violations)


def _step(key: int | str) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"


def _resolve(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The annotation of a parameter as a type; `str` without one. Raises TypeError for unknown names."""
    if parameter.annotation is inspect.Parameter.empty:
        return str
    # Only this annotation: names of other annotations may be known to type checkers only.
    holder = type("_", (), {"__annotations__": {"value": parameter.annotation}})
    names = getattr(inspect.unwrap(code_of(function)), "__globals__", {})
    try:
        return get_type_hints(holder, names, {}, include_extras=True)["value"]
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(
            f"the annotation {parameter.annotation!r} of {parameter.name!r} cannot be resolved ({error}):"
            " its names have to be known in the module of the function at run time"
        ) from None


def _members(annotation: Any) -> set[Any]:
    """The types of a union, without notes; of another type itself."""
    return set(_each(annotation))


def _each(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _each(annotation.__origin__)
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _each(member)
    else:
        yield annotation


def _takes_run(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.name == "run"
    return _names_run(parameter.annotation)


def _names_run(annotation: Any) -> bool:
    """True for `Run`, for a union with it, for either in Annotated, and for the text of either."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):  # its names may not be known here, so it is not evaluated
        text = _ANNOTATED.sub(r"\g<type>", annotation.strip(_QUOTES))
        union = _UNION.fullmatch(text)
        members = re.split("[|,]", union["members"]) if union else text.split("|")
        return any(member.strip(_QUOTES).rpartition(".")[2] == "Run" for member in members)
    origin = get_origin(annotation)
    if origin is Annotated:
        return _names_run(annotation.__origin__)
    if origin in (Union, UnionType):
        return any(map(_names_run, get_args(annotation)))
    return getattr(annotation, "__name__", "") == "Run"
