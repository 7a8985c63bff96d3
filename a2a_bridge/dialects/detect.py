"""Which version a request speaks: the one place that decides it. Pure, and the same for every binding.

Rules (spec 3.6, 5.1):
1. The service parameter `A2A-Version` decides; over HTTP a query parameter of that name may stand in for it.
2. Major and minor count, the patch does not. What is not `Major.Minor[.Patch]` is not supported.
3. Absent or empty means 0.3, where the address does not say otherwise. On gRPC it does: the package in the
   path names the version, so there an absent parameter is no contradiction and a different one is.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.dialect import Dialect

#: what a caller speaks that does not say (spec 3.6.2)
DEFAULT_VERSION = "0.3"


def normalise(version: str) -> str | None:
    """`Major.Minor` of a version text, None when it is not one. " 1.0.1 " gives "1.0"."""
    parts = version.strip().split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return f"{int(parts[0])}.{int(parts[1])}" if max(map(len, parts)) <= 9 else None


def detect(
    declared: str | None,
    dialects: Iterable[Dialect],
    *,
    address: Dialect | None = None,
    default: str = DEFAULT_VERSION,
) -> Dialect:
    """The dialect a request speaks.

    declared: the `A2A-Version` parameter, None when there was none.
    dialects: what the interface offers.
    address: the dialect that the address alone determines (the package of a gRPC path), if it does.
    default: the version of callers that do not say and whose address does not either.

    Raises A2AError VERSION_NOT_SUPPORTED, listing what is supported in the metadata.
    """
    offered = tuple(dialects)
    text = (declared or "").strip()
    if not text and address is not None:
        return address
    wanted = normalise(text or default)
    for dialect in offered:
        if wanted is not None and normalise(dialect.version) == wanted and address in (None, dialect):
            return dialect
    raise version_not_supported(text, offered)


def version_not_supported(declared: str, offered: Iterable[Dialect]) -> A2AError:
    """VERSION_NOT_SUPPORTED that says what was asked for and what is offered."""
    supported = ", ".join(dialect.version for dialect in offered)
    asked = f"version {declared[:32]!r}" if declared else f"no A2A-Version, which means {DEFAULT_VERSION},"
    return A2AError(
        Reason.VERSION_NOT_SUPPORTED,
        f"{asked} is not supported here; supported: {supported}",
        metadata={"supportedVersions": supported},
    )
