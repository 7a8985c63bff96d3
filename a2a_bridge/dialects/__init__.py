"""The known protocol versions. This is an enumerated set: versions are never compared as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from a2a_bridge.dialects.dialect import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    BindingKind,
    CardForm,
    Dialect,
    ErrorReply,
    Form,
    HttpAddress,
    HttpRule,
    Loss,
    PushForm,
    Row,
    RowExtras,
)
from a2a_bridge.dialects.known import KnownDialects, normalise
from a2a_bridge.dialects.v0_1 import DIALECT as V0_1
from a2a_bridge.dialects.v0_2_5 import DIALECT as V0_2_5
from a2a_bridge.dialects.v0_3 import DIALECT as V0_3
from a2a_bridge.dialects.v1_0 import DIALECT as V1_0

#: Versions of entry points first, then the built-in ones, newest first. If several fit, the first is used.
KNOWN = KnownDialects(
    (
        V1_0,
        V0_3,
        V0_2_5,
        V0_1,
    )
)


def by_version(version: str) -> Dialect | None:
    """The dialect of a version text such as "1.0" or "1.0.1"; the patch is ignored (spec 3.6)."""
    wanted = normalise(version)
    return next((dialect for dialect in KNOWN if wanted and normalise(dialect.version) == wanted), None)


def older_versions(dialects: Iterable[Dialect] = KNOWN) -> frozenset[str]:
    """The 0.x versions among `dialects`. Their streams end with an event that is marked `final`."""
    return frozenset(dialect.version for dialect in dialects if dialect.final_events)


@cache
def is_older(version: str) -> bool:
    """Whether a known version is a 0.x version."""
    return version in older_versions()


def newest_first(dialects: Iterable[Dialect]) -> tuple[Dialect, ...]:
    """The dialects in the order of `KNOWN`, then those that are not in `KNOWN`, in the given order."""
    order = {dialect: number for number, dialect in enumerate(KNOWN)}
    return tuple(sorted(dialects, key=lambda dialect: order.get(dialect, len(order))))


__all__ = [
    "GRPC",
    "HTTP_JSON",
    "JSONRPC",
    "KNOWN",
    "V0_1",
    "V0_2_5",
    "V0_3",
    "V1_0",
    "BindingKind",
    "CardForm",
    "Dialect",
    "ErrorReply",
    "Form",
    "HttpAddress",
    "HttpRule",
    "Loss",
    "PushForm",
    "Row",
    "RowExtras",
    "by_version",
    "is_older",
    "newest_first",
    "older_versions",
]
