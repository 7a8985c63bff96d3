"""`auth login`: the device flow (RFC 8628) and client credentials (RFC 6749, 4.4), also by OpenID Connect.

Rules:
1. The card names the provider, unless `--issuer` does. Its address is shown before anything is sent to it,
   and secrets go over https only, or to this machine. It may be at the addresses to which a card may lead
   (`gateway.destinations`).
2. Neither tokens nor secrets are printed.
"""

import asyncio
import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

import typer

from a2a_bridge.auth.key_set import fetch_options, json_object
from a2a_bridge.bindings.binding import DialOptions, http_fetch, http_post
from a2a_bridge.bindings.places import place_of
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, fail, local_failure, print_message
from a2a_bridge.cli.values import Exit, text_or_file, usage_error
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.gateway.destinations import Destinations
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import text
from a2a_bridge_tools.client.credentials import StoredToken, origin_of, save_token
from a2a_bridge_tools.client.flags import LoginFlags, LoginFlow
from a2a_bridge_tools.client.reaching import (
    client_options,
    found_card,
    reference,
    refuse_equivalents,
    report_errors,
)

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_FORM = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
#: seconds of a token if the response names no time
_LIFETIME = 300.0
#: seconds beyond which a time of a provider is none
_LONGEST = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Provider:
    """Where tokens come from. device_url: empty if there is no device flow."""

    token_url: str
    device_url: str = ""
    scopes: tuple[str, ...] = ()
    #: whether clients prove themselves in the form, and not in a header
    in_form: bool = False


class Sessions:
    """The sessions with a provider. options: of the agent, with the URL that the operator named. ca: PEM file
    of trusted authorities.
    """

    def __init__(self, options: DialOptions, ca: str) -> None:
        self._destinations = Destinations(options)
        self._options = fetch_options(named=True, ca=ca)

    async def options(self, url: str) -> DialOptions:
        """The options for a URL. Raises A2AError for one that gets no secrets, or must not be led to."""
        place = place_of(url)
        if place is None or not url.lower().startswith(("http://", "https://")):
            text_ = f"the provider is at {url[:200]}, which is no URL"
            raise A2AError(Reason.INVALID_AGENT_RESPONSE, text_, blame=Blame.PEER)
        if not place.secure and not place.is_local:
            text_ = f"secrets go over https only, not to {url}"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text_, blame=Blame.PEER)
        found = await self._destinations.check_url(url)
        if found.rejection:
            text_ = f"the provider is at {url}: {found.rejection}; --issuer names one"
            raise A2AError(Reason.UNSUPPORTED_OPERATION, text_, blame=Blame.PEER)
        return replace(self._options, resolve=found.candidate.resolve)


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks. in_form: as for `Provider`. sessions: with the provider."""

    name: str
    secret: str = field(repr=False)
    in_form: bool
    sessions: Sessions

    async def post(self, url: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        """The response to a form. Raises RejectedError, A2AError."""
        sent, headers = {**form, "client_id": self.name}, dict(_FORM)
        if self.secret and self.in_form:
            sent["client_secret"] = self.secret
        elif self.secret:
            pair = f"{quote_plus(self.name)}:{quote_plus(self.secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        async with http_post(await self.sessions.options(url)) as post:
            reply = await post(url, headers, urlencode(sent).encode())
        try:
            tree = json_object(reply.body)
        except ValueError:
            tree = {}
        if reply.status == 200 and tree:
            return tree
        code = tree.get("error")
        if isinstance(code, str):
            raise RejectedError(code[:60])
        raise A2AError(Reason.UNAVAILABLE, f"{url} answers {reply.status}", blame=Blame.PEER)


class RejectedError(Exception):
    """The provider rejects. code: of RFC 6749, 5.2."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def log_in(context: typer.Context, flags: LoginFlags) -> None:
    """Gets a token and keeps it. Raises typer.Exit, typer.BadParameter."""
    refuse_equivalents(flags, "a login is none of an agent")
    if flags.record is not None:
        raise usage_error("--record", "a login has secrets in it, and is not recorded")
    if not flags.client_id:
        raise usage_error("--client-id", "is missing: the provider knows you by it")
    secret = text_or_file(flags.client_secret, "--client-secret")
    flow = flags.flow or (LoginFlow.CLIENT_CREDENTIALS if secret else LoginFlow.DEVICE)
    if flow is LoginFlow.CLIENT_CREDENTIALS and not secret:
        raise usage_error("--flow", "client-credentials needs --client-secret")
    with report_errors(context, flags):
        try:
            origin, token = asyncio.run(_token(flags, flow, secret))
        except RejectedError as error:
            shown = local_failure(
                Exit.AUTH, f"the provider rejects: {error.code}", "another --client-id, --scope or --flow"
            )
            raise fail(Exit.AUTH, "", error=shown) from None
        place = save_token(origin, token)
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(token.expires_at))
    if flags.output is Output.JSON:
        document({"agent": origin, "expiresAt": expires, "stored": str(place)})
    else:
        data(
            text.field("Agent", origin) + text.field("Expires", expires) + text.field("Stored", place), end=""
        )


async def _token(flags: LoginFlags, flow: LoginFlow, secret: str) -> tuple[str, StoredToken]:
    async with asyncio.timeout(flags.timeout):
        target = None if flags.endpoint else reference(flags.agent_card)
        async with found_card(flags, target, client_options(flags), ["JSONRPC"], "") as (card, options):
            origin = origin_of(options.named or card.supported_interfaces[0].url)
        sessions = Sessions(replace(options, named=flags.issuer or options.named), str(flags.cacert or ""))
        provider = await provider_of(card, flags.issuer, sessions)
        for url in filter(None, (provider.token_url, provider.device_url)):
            await sessions.options(url)
        print_message(f"provider: {provider.token_url}", "dim")
        client = Client(flags.client_id, secret, provider.in_form, sessions)
        form = {"scope": " ".join(flags.scope or provider.scopes), "resource": flags.resource}
        form = {name: value for name, value in form.items() if value}
        if flow is LoginFlow.CLIENT_CREDENTIALS:
            grant = {"grant_type": "client_credentials", **form}
            return origin, _store(await client.post(provider.token_url, grant), provider, client)
        if not provider.device_url:
            raise RejectedError("it has no device flow")
        return origin, await _wait_for_approval(provider, client, form)


async def _wait_for_approval(provider: Provider, client: Client, form: Mapping[str, str]) -> StoredToken:
    """Waits until the user approves in a browser."""
    begun = await client.post(provider.device_url, form)
    uri = begun.get("verification_uri_complete") or begun.get("verification_uri")
    print_message(
        f"open {uri} and approve; the code is {begun.get('user_code')}",
        "bold",
    )
    interval = _seconds(begun, "interval", 5.0)
    until = time.monotonic() + _seconds(begun, "expires_in", 600.0)
    grant = {"grant_type": _DEVICE, "device_code": str(begun.get("device_code"))}
    while time.monotonic() < until:
        await asyncio.sleep(interval)
        try:
            return _store(await client.post(provider.token_url, grant), provider, client)
        except RejectedError as error:
            if error.code == "slow_down":
                interval += 5
            elif error.code != "authorization_pending":
                raise
    raise RejectedError("expired_token")


async def provider_of(card: hub.AgentCard, issuer: str, sessions: Sessions) -> Provider:
    """The provider of an issuer, or of the card. Raises A2AError if there is none."""
    if issuer:
        return await _discover(issuer.rstrip("/") + "/.well-known/openid-configuration", sessions)
    for scheme in card.security_schemes.values():
        if scheme.HasField("open_id_connect_security_scheme"):
            return await _discover(scheme.open_id_connect_security_scheme.open_id_connect_url, sessions)
        if scheme.HasField("oauth2_security_scheme"):
            oauth = scheme.oauth2_security_scheme
            flow = oauth.flows.WhichOneof("flow")
            if flow == "device_code":
                code = oauth.flows.device_code
                return Provider(code.token_url, code.device_authorization_url, tuple(code.scopes))
            if flow == "client_credentials":
                own = oauth.flows.client_credentials
                return Provider(own.token_url, scopes=tuple(own.scopes))
            if oauth.oauth2_metadata_url:
                return await _discover(oauth.oauth2_metadata_url, sessions)
    text_ = "the card names no provider of OAuth 2 or OpenID Connect with such a flow; --issuer names one"
    raise A2AError(Reason.UNSUPPORTED_OPERATION, text_, blame=Blame.PEER)


async def _discover(url: str, sessions: Sessions) -> Provider:
    async with http_fetch(await sessions.options(url)) as fetch:
        reply = await fetch(url, {"accept": "application/json"})
    try:
        tree = json_object(reply.body) if reply.status == 200 else {}
    except ValueError:
        tree = {}
    if not isinstance(tree.get("token_endpoint"), str):
        raise A2AError(Reason.UNAVAILABLE, f"{url} is no discovery document of a provider", blame=Blame.PEER)
    methods = tree.get("token_endpoint_auth_methods_supported")
    only_form = isinstance(methods, list) and "client_secret_basic" not in methods
    device = str(tree.get("device_authorization_endpoint") or "")
    return Provider(str(tree["token_endpoint"]), device, in_form=only_form)


def _store(tree: Mapping[str, Any], provider: Provider, client: Client) -> StoredToken:
    value = tree.get("access_token")
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
        raise A2AError(Reason.UNAVAILABLE, f"{provider.token_url} gives no token", blame=Blame.PEER)
    expires_at = time.time() + _seconds(tree, "expires_in", _LIFETIME)
    return StoredToken(value, expires_at, provider.token_url, client.name)


def _seconds(tree: Mapping[str, Any], name: str, otherwise: float) -> float:
    """A member of a provider's answer that is a time; otherwise: for a missing or an impossible one."""
    try:
        found = float(tree.get(name) or otherwise)
    except (TypeError, ValueError):
        return otherwise
    return found if 0.0 < found < _LONGEST else otherwise
