"""The versions known to this process (built-in ones, and those of entry points), and the version of a
request, which only this module decides. Pure, and the same for every binding.

An entry point of group `a2a_bridge.dialects` names a `Dialect`. Entry points are loaded on the first read of
the versions and not at import, because a dialect of another distribution imports a2a_bridge itself.

Rules for the version of a request (spec 3.6, 5.1):
1. The service parameter `A2A-Version` decides; over HTTP a query parameter of that name may replace it.
   Entries that differ are rejected: none of them counts more.
2. Major and minor count, the patch does not. Anything but `Major.Minor[.Patch]` is not supported.
3. Absent or empty means 0.3 or older, because callers of those versions send no version. Of the offered
   versions of that kind, the newest one that has the requested address (method, route) is used.
4. An address that the version lacks is METHOD_NOT_FOUND. If the caller declared no version and only versions
   with declaring callers have the address, the error is VERSION_NOT_SUPPORTED. Lenient hosts serve both cases
   by the address.
5. Where an address names the version, as a gRPC package does, a missing declaration counts as agreement and a
   contradicting one is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from threading import RLock
from typing import overload

from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.dialect import Dialect
from a2a_bridge.extensions import BrokenExtensionError, load

#: the version of a caller that declares none (spec 3.6.2)
DEFAULT_VERSION = "0.3"


def normalise(version: str) -> str | None:
    """`Major.Minor` of a version text; None if the text is not a version. " 1.0.1 " gives "1.0"."""
    parts = version.strip().split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return f"{int(parts[0])}.{int(parts[1])}" if max(map(len, parts)) <= 9 else None


def detect(
    declared: str | None,
    offered: Collection[Dialect],
    having: Collection[Dialect] | None = None,
    *,
    lenient: bool = False,
) -> Dialect:
    """The dialect of a request. It may lack the address; the response is then METHOD_NOT_FOUND in its format.

    declared: the `A2A-Version` parameter; None if it is absent.
    offered: the dialects that the interface offers, newest first.
    having: the dialects that have the requested address; None if unknown.
    lenient: an existing address takes precedence over the declared version or the absence of one.

    Raises A2AError VERSION_NOT_SUPPORTED with the supported versions in the metadata.
    """
    text = _one_version(declared)
    if text:
        matching = [dialect for dialect in offered if _is(dialect, text)]
        if not matching:
            raise version_not_supported(_unknown_problem(text), offered)
    else:
        matching = [dialect for dialect in offered if not dialect.declares]
    for dialect in matching:
        if having is None or dialect in having:
            return dialect
    elsewhere = [dialect for dialect in offered if having is not None and dialect in having]
    if elsewhere and lenient:
        return elsewhere[0]
    if not matching or (elsewhere and not text):
        raise version_not_supported(_undeclared_problem(offered, elsewhere), offered)
    return matching[0]


def detect_among(
    declared: str | None,
    group: Sequence[Dialect],
    offered: Collection[Dialect],
    address_of: Callable[[Dialect], str],
) -> Dialect:
    """The dialect of a request whose address narrows the version down to one of `group`, newest first. Raises
    VERSION_NOT_SUPPORTED with the `offered` versions if the declared version contradicts; address_of says
    where each of them is served.
    """
    text = _one_version(declared)
    for dialect in group:
        if not text or _is(dialect, text):
            return dialect
    for dialect in offered:
        if _is(dialect, text):
            problem = f"version {text!r} is served at {address_of(dialect)}"
            raise version_not_supported(f"{problem}, this address is of version {group[0].version}", offered)
    raise version_not_supported(_unknown_problem(text), offered)


def presume(declared: str | None, offered: Sequence[Dialect], having: Collection[Dialect] = ()) -> Dialect:
    """The dialect for the error format of a request whose version is unknown. The first that exists of: the
    dialect of the declared version; the newest dialect with the address; for a caller that declared nothing,
    the newest dialect whose callers declare nothing; the newest dialect.
    """
    text = _one_version(declared)
    matching = [dialect for dialect in offered if text and _is(dialect, text)]
    addressed = [dialect for dialect in offered if dialect in having]
    silent = [dialect for dialect in offered if not text and not dialect.declares]
    return (matching or addressed or silent or list(offered))[0]


def _one_version(declared: str | None) -> str:
    """The declared version, or "" without one. Equal entries, such as repeated headers, count as one."""
    text = (declared or "").strip()
    if "," in text:
        entries = {one.strip() for one in text.split(",")} - {""}
        if len(entries) < 2:
            return "".join(entries)
    return text


def version_not_supported(problem: str, offered: Iterable[Dialect]) -> A2AError:
    """VERSION_NOT_SUPPORTED with the problem of the request's version and the offered versions."""
    supported = ", ".join(dialect.version for dialect in offered)
    return A2AError(
        Reason.VERSION_NOT_SUPPORTED,
        f"{problem}; supported: {supported}",
        metadata={"supportedVersions": supported},
    )


def _unknown_problem(declared: str) -> str:
    if "," in declared:
        return f"the request declares several versions, {declared[:32]!r}"
    return f"version {declared[:32]!r} is not supported here"


def _undeclared_problem(offered: Collection[Dialect], elsewhere: Sequence[Dialect]) -> str:
    """The problem of a request that declares no version, and the header that fixes it. elsewhere: the offered
    versions with the method or path, all of which require a declaration.
    """
    read_as = f"without the header A2A-Version a request is read as {DEFAULT_VERSION}"
    if elsewhere:
        version = elsewhere[0].version
        return (
            f"this method or path belongs to version {version}, and {read_as}; send the header 'A2A-Version: "
            f"{version}' (a server that is started with --lenient-versions does not need it)"
        )
    version = next(iter(offered)).version
    return f"{read_as}, which is not served here; send the header 'A2A-Version: {version}'"


def _is(dialect: Dialect, text: str) -> bool:
    wanted = normalise(text)
    return wanted is not None and normalise(dialect.version) == wanted


GROUP = "a2a_bridge.dialects"


class KnownDialects(Sequence[Dialect]):
    """All known versions: those of entry points, then the built-in ones, newest first. The first read raises
    BrokenExtensionError for an entry point that names no dialect, and for two dialects of one version.
    """

    def __init__(self, built_in: Sequence[Dialect]) -> None:
        self._built_in = tuple(built_in)
        self._all: tuple[Dialect, ...] | None = None
        self._loading = False
        self._lock = RLock()

    def _dialects(self) -> tuple[Dialect, ...]:
        if self._all is not None:
            return self._all
        with self._lock:
            # A module of an entry point may read the versions during its import: it gets the built-in ones.
            if self._all is None and not self._loading:
                self._loading = True
                try:
                    self._all = (*self._of_entry_points(), *self._built_in)
                finally:
                    self._loading = False
            return self._all or self._built_in

    def _of_entry_points(self) -> list[Dialect]:
        taken = {normalise(one.version): "a2a_bridge" for one in self._built_in}
        found = []
        for point in entry_points(group=GROUP):
            what = f"the protocol version {point.name!r}"
            dialect = load(point, what)
            if not isinstance(dialect, Dialect) or normalise(dialect.version) is None:
                raise BrokenExtensionError(what, f"{point.value!r} names no Dialect with a version", [point])
            version = normalise(dialect.version)
            if version in taken:
                reason = f"version {dialect.version} of {point.value!r} is defined by {taken[version]} too"
                raise BrokenExtensionError(what, reason, [point])
            taken[version] = repr(point.value)
            found.append(dialect)
        return found

    @overload
    def __getitem__(self, index: int) -> Dialect: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Dialect]: ...

    def __getitem__(self, index: int | slice) -> Dialect | Sequence[Dialect]:
        return self._dialects()[index]

    def __iter__(self) -> Iterator[Dialect]:
        return iter(self._dialects())

    def __len__(self) -> int:
        return len(self._dialects())

    def __repr__(self) -> str:
        return repr(self._dialects())
