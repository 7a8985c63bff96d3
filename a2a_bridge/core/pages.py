"""The pages of a list, one after the other. It makes no call itself.

Rules:
1. A peer decides which page comes next, so the number of pages has a limit.
2. A token that has been asked for is never asked for again: such a list has no end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from a2a_bridge.core.errors import A2AError, Blame, Reason

#: most pages of push notification configs that are joined into one list
CONFIG_PAGES = 100


class Page(Protocol):
    """A response of ListTasks (spec 3.1.4) or ListTaskPushNotificationConfigs (spec 3.1.9)."""

    next_page_token: str


P = TypeVar("P", bound=Page)


class EndlessListError(A2AError):
    """INVALID_AGENT_RESPONSE for a list without an end. token: of the page where the list can go on; empty
    for a list that begins again.
    """

    def __init__(self, text: str, token: str = "") -> None:
        super().__init__(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER)
        self.token = token
        #: what a person may try
        self.hint = ""


async def each_page(ask: Callable[[Any], Awaitable[P]], request: Any, most: int) -> AsyncGenerator[P, None]:
    """The page that a request asks for, and those after it.

    ask: makes a call. request: of the first page; it is not changed. most: pages, at least 1. Raises
    EndlessListError after the last of them, and the errors of `ask`.
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
