"""The pages of a list: all of them, and none of a list without an end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import pytest

from a2a_bridge.core.errors import Blame, Reason
from a2a_bridge.core.paging import EndlessListError, each_page
from a2a_bridge.pb import lf_a2a_v1 as hub


class Agent:
    """Lists of tasks. following: the token after a token."""

    def __init__(self, following: Callable[[str], str]) -> None:
        self.following = following
        self.asked: list[str] = []

    async def ask(self, request: hub.ListTasksRequest) -> hub.ListTasksResponse:
        self.asked.append(request.page_token)
        return hub.ListTasksResponse(next_page_token=self.following(request.page_token))


async def read(agent: Agent, most: int, token: str = "") -> hub.ListTasksRequest:
    request = hub.ListTasksRequest(page_token=token, context_id="c")
    async with aclosing(each_page(agent.ask, request, most)) as pages:
        async for _ in pages:
            pass
    return request


async def test_every_page_and_the_request_stays() -> None:
    agent = Agent({"": "b", "b": "c", "c": ""}.__getitem__)
    assert (await read(agent, 3)).page_token == ""
    assert agent.asked == ["", "b", "c"]


@pytest.mark.parametrize(
    ("following", "asked", "token"),
    [
        (lambda token: f"{token}x", 5, "xxxxx"),  # always another page
        (lambda _: "same", 2, ""),
        (lambda token: {"": "a", "a": "b", "b": "a"}[token], 3, ""),
    ],
)
async def test_a_list_without_an_end(following: Callable[[str], str], asked: int, token: str) -> None:
    agent = Agent(following)
    with pytest.raises(EndlessListError) as caught:
        await read(agent, 5)
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)
    assert (len(agent.asked), caught.value.token) == (asked, token)


async def test_the_first_token_counts() -> None:
    agent = Agent(lambda _: "b")
    with pytest.raises(EndlessListError):
        await read(agent, 5, "b")
    assert agent.asked == ["b"]
