"""Strict JSON, for signed documents: all readers have to read the same content."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from a2a_bridge.codec import JsonObject


def parse_object(document: bytes) -> JsonObject:
    """An object in UTF-8 without a member twice, because readers differ on which one counts. Raises
    ValueError with the reason, which begins with a verb.
    """
    try:
        found = json.loads(document.decode(), object_pairs_hook=_members, parse_constant=_reject_constant)
    except KeyError as twice:
        raise ValueError(f"has the member {twice.args[0][:64]!r} twice") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    if type(found) is not dict:
        raise ValueError("is no object")
    return found


def _members(pairs: list[tuple[str, Any]]) -> JsonObject:
    made: JsonObject = {}
    for name, value in pairs:
        if name in made:
            raise KeyError(name)
        made[name] = value
    return made


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
