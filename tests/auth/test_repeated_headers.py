"""A header that identifies the caller, or says what a request means, counts only if it has one value."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_bridge import connect, serve
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.auth import ApiKeys, Authentication, BearerTokens, KeyFile, KeySetSource, ProxyHeader, Rule
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core.call import CallContext, Joined
from a2a_bridge.core.callers import Presented, UnauthenticatedError
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.gateway.tasks import scopes_by
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.auth.identity_provider import AUDIENCE, provider_running
from tests.runtime.scene import BINDINGS, agent

PROXY = ("127.0.0.1",)


@pytest.mark.parametrize("names", [("ci-", "mallory"), ("ann", "ann"), ("", "ann"), ("ann", "")])
async def test_a_proxy_that_adds_its_header_names_nobody(names: tuple[str, str]) -> None:
    method = ProxyHeader("X-User", PROXY)
    for given in (Joined(names), ",".join(names), ", ".join(names)):
        with pytest.raises(UnauthenticatedError):
            await method.identify(Presented({"x-user": given}, "127.0.0.1"))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_each_credential_has_one_value(binding: str, tmp_path: Path) -> None:
    """Both values are good ones where the credential has no order: also two of the same name nobody."""
    file = KeyFile(tmp_path / "keys.json")
    key = file.create("ci-1").text
    async with provider_running() as provider:
        tokens = BearerTokens(provider.issuer, [AUDIENCE], KeySetSource(provider.issuer))
        methods = [ApiKeys(file), tokens, ProxyHeader("X-User", PROXY)]
        bearer = f"Bearer {provider.token()}"
        options = ServeOptions(authentication=Authentication(methods), access_rules=(Rule(),))
        credentials = {"x-api-key": key, "authorization": bearer, "x-user": "ci-1"}
        async with serve(agent(), options=options) as server:
            for name, value in credentials.items():
                for given in (value, Joined([value, value]), Joined(["ci-", value]), Joined([value, "x"])):
                    dialled = DialOptions(parameters={name: given})
                    async with connect(server.card, binding=binding, options=dialled) as peer:
                        assert await _reason(peer, name) == (
                            None if given == value else Reason.UNAUTHENTICATED
                        ), (name, given)


async def _reason(peer: Any, text: str) -> Reason | None:
    try:
        await peer.send(text)
    except A2AError as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    ("name", "values"),
    [("A2A-Version", ("1.0", "0.3")), ("Request-Timeout", ("5", "6")), ("Last-Event-ID", ("1", "1"))],
)
async def test_a_header_with_a_meaning_has_one_value(name: str, values: tuple[str, str]) -> None:
    async with serve(agent()) as server, httpx.AsyncClient() as http:
        head = [("A2A-Version", "1.0")] if name != "A2A-Version" else []
        url = f"http://{server.http}/tasks/nothing:subscribe"
        for given, status in ((values[:1], 404), (values, 400)):
            found = await http.post(url, json={}, headers=[*head, *((name, one) for one in given)])
            assert found.status_code == status, found.text


def test_two_headers_are_another_caller_than_one_with_their_text() -> None:
    """An agent may read the first header only, so that the two are different callers for it."""
    scope = scopes_by(["x-user"])
    one = CallContext(parameters={"x-user": "ann,bob"})
    two = CallContext(parameters={"x-user": Joined(["ann", "bob"])})
    request = hub.GetTaskRequest()
    assert scope(request, one) != scope(request, two)
    assert scope(request, two) == scope(request, CallContext(parameters={"x-user": Joined(["ann", "bob"])}))
