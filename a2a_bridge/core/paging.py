"""Pages of lists: queries of ListTasks, page tokens, the size of a page of tasks, and the reading of all
pages of an agent's list. Stores select the tasks of a page; callers make the calls.

Rules:
1. A page token is opaque to callers and bound to its query.
2. An agent decides which page comes next, so the number of pages that are read has a limit.
3. A token that has been asked for is never asked for again: such a list has no end.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Blame, Reason, invalid_params
from a2a_bridge.core.messages import cut_history
from a2a_bridge.pb import lf_a2a_v1 as hub

#: bytes of the tasks in a page: gRPC clients reject answers of more than 4 MiB unless told otherwise
PAGE_BYTES = 3_500_000

_MAC_BYTES = 12
_LONGEST = 1024
#: tasks in a page, and the most that a caller may ask for
_PAGE, _LARGEST_PAGE = 50, 100


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Which tasks to list (spec 3.1.4)."""

    #: only tasks of this context; empty for all
    context_id: str = ""
    #: only tasks in this state; UNSPECIFIED for all
    state: hub.TaskState = hub.TASK_STATE_UNSPECIFIED
    #: only tasks with a status of this time or later, in nanoseconds since the epoch; None for all
    since: int | None = None
    #: the largest number of tasks in the page; fewer if they are large, see TaskPageFiller
    page_size: int = 50
    #: the token of the page before; empty for the first page
    page_token: str = ""
    #: True to include the artifacts
    artifacts: bool = False
    #: the newest messages of each task to include; None for all
    history_length: int | None = None


def query_of(request: hub.ListTasksRequest) -> TaskQuery:
    """What a request asks for. Raises INVALID_PARAMS for values that the specification does not allow."""
    limit = history_limit(request, "historyLength")
    size = request.page_size if request.HasField("page_size") else _PAGE
    if not 1 <= size <= _LARGEST_PAGE:
        raise invalid_params("pageSize", f"must be from 1 to {_LARGEST_PAGE}")
    if request.status not in hub.TaskState.values():
        raise invalid_params("status", "is not a task state")
    since = request.status_timestamp_after if request.HasField("status_timestamp_after") else None
    return TaskQuery(
        context_id=request.context_id,
        state=request.status,
        since=None if since is None else since.seconds * 1_000_000_000 + since.nanos,
        page_size=size,
        page_token=request.page_token,
        artifacts=request.include_artifacts,
        history_length=limit,
    )


def history_limit(source: Any, path: str) -> int | None:
    """The number of history messages to return; None for all. Raises INVALID_PARAMS for a negative number."""
    if not source.HasField("history_length"):
        return None
    limit: int = source.history_length
    if limit < 0:
        raise invalid_params(path, "must not be negative")
    return limit


class PageTokens:
    """Issues tokens and reads them back.

    key: the secret of this issuer; empty for a random key. Tokens stay valid after a restart only with the
    same key.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._key = key or os.urandom(32)

    def next_token(self, scope: Scope, query: TaskQuery, last: tuple[int, str]) -> str:
        """The token for the page after a task. last: its time, in nanoseconds since the epoch, and its id."""
        place = f"{last[0]} {last[1]}".encode()
        return base64.urlsafe_b64encode(self._mac(place, _name(scope, query)) + place).decode().rstrip("=")

    def after(self, scope: Scope, query: TaskQuery) -> tuple[int, str] | None:
        """Time and id of the last task of the page before; None for the first page. Raises INVALID_PARAMS
        naming pageToken for a token of another query.
        """
        token = query.page_token
        if not token:
            return None
        if len(token) > _LONGEST:
            raise _bad_token()
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _bad_token() from None
        mac, place = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(place, _name(scope, query))):
            raise _bad_token()
        time, _, task_id = place.decode().partition(" ")
        return int(time), task_id

    def _mac(self, place: bytes, query: str) -> bytes:
        text = len(place).to_bytes(4, "big") + place + query.encode()
        return hashlib.blake2b(text, key=self._key, digest_size=_MAC_BYTES).digest()


class TaskPageFiller:
    """Fills a page with tasks, up to PAGE_BYTES; a larger task is alone on its page.

    artifacts: whether they are included. history_length: the newest messages to include; None for all.
    """

    def __init__(self, *, artifacts: bool, history_length: int | None) -> None:
        self.tasks: list[hub.Task] = []
        self._artifacts = artifacts
        self._history_length = history_length
        self._left = PAGE_BYTES

    def add(self, task: hub.Task) -> bool:
        """Adds a task, whose unwanted parts it removes. False if it does not fit: the page ends before it."""
        if not self._artifacts:
            task.ClearField("artifacts")
        cut_history(task, self._history_length)
        size = task.ByteSize()
        if self.tasks and size > self._left:
            return False
        self._left -= size
        self.tasks.append(task)
        return True


def _name(scope: Scope, query: TaskQuery) -> str:
    """What all pages of a query have in common."""
    return repr((*scope, query.context_id, int(query.state), query.since))


def _bad_token() -> A2AError:
    return invalid_params("pageToken", "is not a token that this query has given")


#: most pages of push notification configs that are joined into one list
CONFIG_PAGES = 100


#: a page: the response of an operation that lists (spec 3.1.4 and 3.1.9)
P = TypeVar("P", hub.ListTasksResponse, hub.ListTaskPushNotificationConfigsResponse)


class EndlessListError(A2AError):
    """INVALID_AGENT_RESPONSE for a list without an end. token: of the page where the list can go on; empty if
    the list begins again.
    """

    def __init__(self, text: str, token: str = "") -> None:
        super().__init__(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        self.token = token
        #: what a person may try
        self.hint = ""


async def each_page(ask: Callable[[Any], Awaitable[P]], request: Any, most: int) -> AsyncGenerator[P, None]:
    """The page that a request asks for, and those after it. ask: makes a call. request: of the first page; it
    is not changed. most: pages, at least 1. Raises EndlessListError after the last of these pages, and the
    errors of `ask`.
    """
    asked = {request.page_token}
    page = await ask(request)
    yield page
    for _ in range(most - 1):
        token = page.next_page_token
        if not token:
            return
        if token in asked:
            raise EndlessListError("the agent's list names a page a second time")
        asked.add(token)
        following = type(request)()
        following.CopyFrom(request)
        following.page_token = token
        page = await ask(following)
        yield page
    if page.next_page_token:
        raise EndlessListError(f"the agent's list has more than {most} pages", page.next_page_token)
