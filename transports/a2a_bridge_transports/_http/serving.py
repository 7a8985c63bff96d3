"""What the server sides of the HTTP bindings share: versions, contexts, and how failures end. Not a binding.

Rules:
1. Nothing but A2AError and Reply leaves a server side; what else is raised is logged whole and sent as INTERNAL.
2. The version is decided before the operation is looked up, and after the body was read.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from a2a_bridge.core.call import CallContext, Origin
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import Dialect, Form, Kind
from a2a_bridge.dialects.detect import detect
from a2a_bridge_transports._http.exchange import Headers, Refusal, Request
from a2a_bridge_transports._http.parameters import deadline_of, declared_version, reply_headers

Index = TypeVar("Index")


@dataclass(slots=True)
class Table(Generic[Index]):
    """One version at one mount: its form, and its rows in the order the binding looks them up."""

    dialect: Dialect
    form: Form[Any, Any]
    index: Index


class ServerSide(Generic[Index]):
    """A service over the versions that one mount offers.

    Raises ValueError when no dialect has a form for the kind.
    """

    def __init__(
        self,
        kind: Kind[Any, Any],
        service: Service,
        dialects: Sequence[Dialect],
        index: Callable[[Form[Any, Any]], Index],
        *,
        lenient: bool,
    ) -> None:
        self.service = service
        self.log = logging.getLogger(f"a2a_bridge.{kind.name.lower()}")
        self._kind = kind.name
        self._lenient = lenient
        self._tables: dict[str, Table[Index]] = {}
        for dialect in dialects:
            form = dialect.form(kind)
            if form is not None:
                self._tables[dialect.version] = Table(dialect, form, index(form))
        if not self._tables:
            raise ValueError(f"none of {list(dialects)} can be spoken over {kind.name}")
        self.tables = tuple(self._tables.values())

    def table(self, request: Request, knows: Callable[[Table[Index]], bool]) -> Table[Index]:
        """The version a request speaks. Raises VERSION_NOT_SUPPORTED.

        knows: whether a version has what the request asks for; a lenient host takes the first that does for
        callers that declare none.
        """
        declared = declared_version(request.headers, request.query)
        if declared is not None:
            found = self._tables.get(declared)
            if found is not None:
                return found
        if self._lenient and not (declared or "").strip():
            for table in self.tables:
                if knows(table):
                    return table
        dialect = detect(declared, [table.dialect for table in self.tables])
        return next(table for table in self.tables if table.dialect is dialect)

    def context(self, request: Request, table: Table[Index], tenant: str) -> CallContext:
        """The circumstances of a call. Raises INVALID_REQUEST for a deadline that is none."""
        return CallContext(
            tenant,
            request.parameters(),
            None,
            deadline_of(request.headers, time.monotonic()),
            _origin(self._kind, table.dialect.version, request.peer, request.base_url()),
        )

    def failure(self, request: Request, error: BaseException, name: str) -> A2AError:
        """What to tell the caller about an exception. Raises it again when the client has left."""
        if isinstance(error, A2AError):
            return error
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if request.stopping:
                if task is not None:
                    task.uncancel()
                return A2AError(Reason.UNAVAILABLE, "the server is shutting down", blame=Blame.SELF)
            if task is None or task.cancelling():
                raise error
        elif not isinstance(error, Exception):
            raise error
        self.log.error("%s failed", name, exc_info=error)
        return internal_error()

    def reply_headers(self, context: CallContext | None, name: str) -> Headers:
        """The response parameters as headers. Raises INTERNAL_ERROR for what cannot be one."""
        if context is None or not context.reply:
            return ()
        try:
            return reply_headers(context.reply)
        except ValueError as error:
            self.log.error("%s: %s", name, error)  # noqa: TRY400  a trace would say nothing more
            raise internal_error() from None


def error_status(error: A2AError, encoded: int) -> int:
    """The HTTP status of an error whose form says `encoded`."""
    return error.status if isinstance(error, Refusal) else encoded


def error_headers(error: A2AError) -> Headers:
    """Headers that an error brings along: Allow, Retry-After."""
    headers: Headers = error.headers if isinstance(error, Refusal) else ()
    if error.retry_after is not None:
        headers += (("Retry-After", str(max(0, math.ceil(error.retry_after)))),)
    return headers


@lru_cache(maxsize=1024)
def _origin(kind: str, version: str, peer: str, base_url: str) -> Origin:
    return Origin(kind, version, peer, base_url)
