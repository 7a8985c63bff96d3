"""Structured output: an answer that is JSON of a form that the caller asks for.

Rules:
1. The answer is the first data part that fits; else the text, if all of it is JSON that fits, also as one
   Markdown block. Anything else is an error that says what is missing.
2. The caller chooses the schema, and the agent the value. So a schema is bounded in size, refers to nothing
   outside of itself, and is checked in a bounded number of steps. Regular expressions have no such bound:
   `pattern` and `format` are not checked, and schemas that need one are rejected.
3. Python's errors of `jsonschema` repeat values: those of a check show themselves in a few words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from a2a_bridge.bindings.offload import SMALL, run_in_worker
from a2a_bridge.codec import JsonSyntaxError, dumps, loads
from a2a_bridge.codec.budget import METER, LengthyError, spend, within_budget
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import json_of

#: values of a schema, and steps to check an answer
VALUES, STEPS = 10_000, 300_000
#: steps for an error: it has a message and a path
_ERROR = 20
#: characters of the text of an error, and of a value in it
_LONGEST, _QUOTED = 500, 60
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*)\n```", re.DOTALL)


class SchemaError(ValueError):
    """A schema is not valid, or asks for what is not checked. The text names the place."""


class UnfitError(ValueError):
    """An answer has not the form that its caller wants. The text says what is missing."""


class _Short:
    """A value that shows itself in a few words. weight: the values in it."""

    __slots__ = ()
    weight = 1


class _List(list[Any], _Short):
    def __repr__(self) -> str:
        return "this list"


class _Object(dict[str, Any], _Short):
    def __repr__(self) -> str:
        return "this object"


class _Text(str, _Short):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(str(self)) if len(self) <= _QUOTED else "this text"


def _short(value: Any) -> Any:
    """A JSON value whose parts show themselves in a few words. Counts each of them. Raises LengthyError."""
    spend(1)
    if isinstance(value, str):
        return _Text(value)
    if isinstance(value, list):
        made: Any = _List(map(_short, value))
        inside = made
    elif isinstance(value, dict):
        made = _Object((_Text(name), _short(one)) for name, one in value.items())
        inside = made.values()
    else:
        return value
    made.weight = 1 + sum(_weight(one) for one in inside)
    return made


def _weight(value: Any) -> int:
    return value.weight if isinstance(value, _Short) else 1


def _width(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1


def _unique(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    """As `jsonschema` does, which compares each item with each other one, in linear time."""
    if wanted and validator.is_type(instance, "array"):
        spend(_weight(instance))
        if len(set(map(_frozen, instance))) < len(instance):
            yield ValidationError("has equal items")


def _frozen(value: Any) -> Any:
    """A key that equal JSON values have in common: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return isinstance(value, bool), value


def _counted(name: str, keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """A keyword that counts its steps. Raises LengthyError."""
    size = _weight if name in ("const", "enum") else _width

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        spend(size(value) + _width(instance))
        for error in keyword(validator, value, instance, schema) or ():
            spend(_ERROR)
            yield error

    return check


#: keywords that hold a schema, a list of them, or several by name
_ONE = frozenset(("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"))
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "properties"))
_REFUSED = frozenset(
    ("$dynamicRef", "$recursiveRef", "dependencies", "patternProperties", "unevaluatedItems")
) | {"unevaluatedProperties"}
_UNCHECKED = ("format", "pattern")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_type(value: Any) -> bool:
    return value in _TYPES if isinstance(value, str) else _is_texts(value) and set(value) <= {*_TYPES}


#: other keywords: whether a value is valid, and what it has to be
_PLAIN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "$ref": (
        lambda value: isinstance(value, str) and value.startswith("#") and len(value) <= _LONGEST,
        f"a reference within the document, of at most {_LONGEST} characters",
    ),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_texts, value.values())),
        "an object of lists of names",
    ),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "required": (_is_texts, "a list of names"),
    "type": (_is_type, f"one or several of {', '.join(_TYPES)}"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), (_is_number, "a number")),
    **dict.fromkeys(
        (f"{end}{what}" for end in ("max", "min") for what in ("Contains", "Items", "Length", "Properties")),
        (_is_count, "a number of at least 0"),
    ),
}

_VALIDATORS = Draft202012Validator.VALIDATORS
_Validator = extend(
    Draft202012Validator,
    {
        **{name: _counted(name, one) for name, one in _VALIDATORS.items()},
        "uniqueItems": _counted("uniqueItems", _unique),
        **dict.fromkeys(_UNCHECKED, lambda *_: ()),
    },
)


class _Reading:
    """The places of the schemas in a document, and the references between them."""

    def __init__(self, document: Any) -> None:
        self._places: set[str] = set()
        self._references: dict[str, str] = {}
        self._schema(document, "#")
        for place, reference in self._references.items():
            if unquote(reference).rstrip("/") not in self._places:
                raise SchemaError(f"{place}: leads to no schema of the document")

    def _schema(self, value: Any, place: str) -> None:
        self._places.add(place)
        if isinstance(value, bool):
            return
        if not isinstance(value, dict):
            raise SchemaError(f"{place}: is an object, true or false")
        for name, one in value.items():
            inside = f"{place}/{_segment(name)}"
            if name in _REFUSED or (name == "$id" and place != "#"):
                raise SchemaError(f"{inside[:_LONGEST]}: is not supported")
            if name in _ONE:
                self._schema(one, inside)
            elif name in _SEVERAL:
                if not isinstance(one, list) or not one:
                    raise SchemaError(f"{inside}: is a list of schemas")
                for number, each in enumerate(one):
                    self._schema(each, f"{inside}/{number}")
            elif name in _NAMED:
                if not isinstance(one, dict):
                    raise SchemaError(f"{inside}: is an object of schemas")
                for key, each in one.items():
                    self._schema(each, f"{inside}/{_segment(key)}")
            elif name in _PLAIN:
                is_valid, wanted = _PLAIN[name]
                if not is_valid(one):
                    raise SchemaError(f"{inside}: is {wanted}")
                if name == "$ref":
                    self._references[inside] = one


def _segment(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def validator_of(schema: Any) -> Any:
    """The validator of a schema that a caller has sent. Raises SchemaError."""
    METER.left = VALUES
    try:
        known = _short(schema)
        _Reading(known)
    except LengthyError:
        raise SchemaError(f"has more than {VALUES} values") from None
    except RecursionError:
        raise SchemaError("is nested too deep") from None
    finally:
        METER.left = inf
    # A registry without a way to get documents: the default one asks the network.
    return _Validator(known, registry=Registry())


@dataclass(frozen=True, slots=True)
class Structure:
    """The form that a caller wants. validator: of its schema; None for any object."""

    validator: Any

    async def text_of(self, parts: Sequence[hub.Part]) -> str:
        """The JSON text of an answer. Raises UnfitError."""
        size = sum(part.ByteSize() for part in parts)
        if size <= SMALL:
            try:
                return within_budget(self._text, parts)
            except LengthyError:
                pass
        return await run_in_worker(self._bounded, parts)

    def _bounded(self, parts: Sequence[hub.Part]) -> str:
        METER.left = STEPS
        try:
            return self._text(parts)
        except LengthyError:
            raise UnfitError(f"its check takes more than {STEPS} steps") from None
        finally:
            METER.left = inf

    def _text(self, parts: Sequence[hub.Part]) -> str:
        fault = "it has neither data nor text that is JSON"
        for value in _values(parts):
            found = self._fault(value)
            if not found:
                return dumps(value).decode()
            fault = found
        raise UnfitError(fault)

    def _fault(self, value: Any) -> str:
        """What is wrong with a value; empty if it fits. Raises LengthyError."""
        if self.validator is None:
            return "" if isinstance(value, dict) else "it is no JSON object"
        try:
            error = next(self.validator.iter_errors(_short(value)), None)
        except RecursionError:
            return "it is nested too deep to be checked"
        return "" if error is None else f"{error.json_path}: {error.message}"[:_LONGEST]


def _values(parts: Sequence[hub.Part]) -> Iterator[Any]:
    """What of an answer can be the value: each data part, and the text."""
    texts = []
    for part in parts:
        which = part.WhichOneof("content")
        if which == "data":
            yield json_of(part)
        elif which == "text":
            texts.append(part.text)
    text = "".join(texts).strip()
    block = _BLOCK.fullmatch(text)
    try:
        value = loads((block[1] if block else text).encode())
    except (JsonSyntaxError, UnicodeEncodeError):
        return
    yield value
