"""Signed cards as they are served and read: our server, gateway and client, and the SDKs for Python and JS."""

import asyncio
import base64
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from a2a_bridge import Agent, agent, asgi, connect, interface, serve
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import serve_gateway
from a2a_bridge.auth.card_trust import CardTrust
from a2a_bridge.bindings.binding import DialOptions, Fetched, ListenAddress
from a2a_bridge.bindings.server_tls import ServerTls
from a2a_bridge.cards.resolve import Resolver
from a2a_bridge.cards.select import select
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import PushOptions
from a2a_bridge.signing import CardSigner
from tests.certificates import new_identity
from tests.interop.sdk_client import to_sdk
from tests.patience import PATIENCE
from tests.sdks.programs import BUILT
from tests.signing.scene import CARD, new_key, text_of, verified

PATH = "/.well-known/agent-card.json"
KEYS = "/.well-known/jwks.json"


@agent
async def weather(text: str) -> str:
    """Says é."""
    return text


@agent(push_notifications=True)
async def notifies(text: str) -> str:
    """Sends notifications."""
    return text


FLOW = hub.OAuthFlows(
    client_credentials=hub.ClientCredentialsOAuthFlow(
        token_url="https://idp.example/token",  # noqa: S106
        scopes={"read": "reads", "write": "writes"},
    )
)
SCHEMES = {"oauth": hub.SecurityScheme(oauth2_security_scheme=hub.OAuth2SecurityScheme(flows=FLOW))}


@agent(security=SCHEMES)
async def secured(text: str) -> str:
    """Wants a token."""
    return text


KEY = hub.SecurityScheme(api_key_security_scheme=hub.APIKeySecurityScheme(location="header", name="X-Key"))


@agent(security={"key": KEY})
async def keyed(text: str) -> str:
    """Wants a key."""
    return text


def signing(*keys: Any, **more: Any) -> ServeOptions:
    return ServeOptions(allow_unauthenticated=True, card_signing_keys=tuple(map(text_of, keys)), **more)


def jwks(folder: Path, *keys: Any) -> str:
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    return str(path)


async def fetched(server: Any, path: str = PATH, **headers: str) -> bytes:
    async with httpx.AsyncClient(base_url=f"http://{server.http}") as http:
        answer = await http.get(path, headers=headers)
        assert answer.status_code == 200
        return answer.content


async def test_every_document_but_that_of_0_2_is_signed() -> None:
    key = new_key("EdDSA")
    async with serve(weather, options=signing(key)) as server:
        for query in ("", "?version=1.0", "?version=0.3", "?bindings=JSONRPC"):
            assert verified(await fetched(server, PATH + query), key).is_complete
        for path in ("/.well-known/agent.json", f"{PATH}?version=0.2.5"):
            assert "signatures" not in json.loads(await fetched(server, path))
        assert await fetched(server) == await fetched(server)  # EdDSA: its ETag stays


async def test_callers_get_no_signature_for_addresses_of_theirs() -> None:
    key = new_key()
    options = signing(key)
    async with serve(weather, options=options) as server:
        for headers in (
            {"host": "evil.example"},
            {"host": "evil.example", "x-forwarded-host": "evil.example"},
        ):
            document = await fetched(server, **headers)
            assert b"evil" not in document
            assert verified(document, key).is_complete
    wild = signing(key, http=ListenAddress("0.0.0.0"))
    with pytest.raises(ValueError, match="needs `public_url`"):
        async with serve(weather, options=wild):
            pass
    with pytest.raises(ValueError, match="needs an HTTP interface"):
        async with serve(weather, [interface("GRPC")], options):
            pass
    named = signing(key, http=ListenAddress("0.0.0.0"), public_url="https://agent.example/")
    async with serve(weather, options=named) as server:
        document = json.loads(await fetched(server, host="evil.example"))
    assert {one["url"] for one in document["supportedInterfaces"] if one["protocolBinding"] == "JSONRPC"} == {
        "https://agent.example/"
    }
    header = json.loads(_decoded(document["signatures"][0]["protected"]))
    assert header["jku"] == f"https://agent.example{KEYS}"


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_an_application_needs_a_public_url() -> None:
    application = asgi(weather, options=signing(new_key()))
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as http:
        assert (await http.get(PATH)).status_code == 503
    key = new_key()
    application = asgi(weather, options=signing(key, public_url="https://agent.example"))
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as http:
        document = (await http.get(PATH)).content
    assert b"evil" not in document
    assert verified(document, key).is_complete
    await application.drain(0)


async def test_one_document_has_the_keys_of_cards_and_of_notifications() -> None:
    first, second, push = new_key(kid="first"), new_key("EdDSA", kid="second"), new_key(kid="push")
    options = signing(first, second, push_options=PushOptions(signing_keys=(text_of(push),)))
    async with serve(notifies, options=options) as server:
        published = json.loads(await fetched(server, KEYS))["keys"]
        document = await fetched(server)
    assert {row["kid"] for row in published} == {"first", "second", "push"}
    assert not any("d" in row for row in published)
    assert verified(document, first).kid == "first"


async def test_a_gateway_verifies_and_signs_anew(tmp_path: Path) -> None:
    theirs, ours = new_key(kid="theirs"), new_key("EdDSA", kid="ours")
    trust = CardTrust([jwks(tmp_path, theirs)], required=True)
    async with serve(weather, options=signing(theirs)) as server:
        dialling = DialOptions(check_card=trust.check, timeout=PATIENCE)
        async with connect(f"http://{server.http}", options=dialling) as peer:
            assert (await peer.send("hi")).text == "hi"
            card = peer.card
        assert card is not None
        candidates = select(card, known=("JSONRPC", "HTTP+JSON", "GRPC"))
        async with serve_gateway(card, candidates, options=signing(ours), dial_options=dialling) as gateway:
            document = await fetched(gateway)
            assert verified(document, ours).is_complete
            assert len(json.loads(document)["signatures"]) == 2
            plain = DialOptions(check_card=CardTrust([jwks(tmp_path, ours)], required=True).check)
            async with connect(f"http://{gateway.http}", options=plain) as peer:
                assert (await peer.send("hi")).text == "hi"
        async with serve_gateway(card, candidates, dial_options=dialling) as gateway:
            assert "signatures" not in json.loads(await fetched(gateway))  # a stale one is worse than none


@pytest.mark.parametrize("required", [True, False])
async def test_what_is_not_signed_by_the_right_key(
    tmp_path: Path, required: bool, caplog: pytest.LogCaptureFixture
) -> None:
    trust = CardTrust([jwks(tmp_path, new_key())], required=required)
    options = DialOptions(check_card=trust.check)
    for serving, words in (
        (ServeOptions(), "is not signed"),
        (signing(new_key()), "is not one of this card"),
        (signing(new_key(kid="other")), "'other' is not one of the configured keys"),
    ):
        async with serve(weather, options=serving) as server:
            for _ in range(2):
                if not required:
                    async with connect(f"http://{server.http}", options=options) as peer:
                        assert (await peer.send("hi")).text == "hi"
                    continue
                with pytest.raises(A2AError, match=words) as caught:
                    async with connect(f"http://{server.http}", options=options):
                        pass
                assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
                assert str(server.http) in caught.value.message
        if not required:
            assert sum(words in record.message for record in caplog.records) == 1
            caplog.clear()


async def test_without_readable_keys_nothing_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trust = CardTrust([str(tmp_path / "absent.json")], required=True)
    async with serve(weather, options=signing(new_key())) as server:
        document = await fetched(server)
    with pytest.raises(A2AError, match="cannot be read now") as caught:
        await trust.check(document, "here")
    assert caught.value.reason is Reason.UNAVAILABLE
    (warning,) = [one.getMessage() for one in caplog.records if "absent.json" in one.getMessage()]
    assert "--card-keys" in warning
    assert "--jwt" not in warning
    with pytest.raises(ValueError, match="without keys"):
        CardTrust([])


async def test_keys_that_a_signature_names_count_for_allowed_hosts_only(tmp_path: Path) -> None:
    key = new_key()
    certificate, private = new_identity().written(tmp_path, "server")
    async with serve(weather, options=signing(key, tls=ServerTls(certificate, private))) as server:
        place = str(server.http)
        # `jku` needs a public URL, which is known here only when the port is.
        signer = CardSigner([text_of(key)], jku=f"https://{place}{KEYS}")
        document = signer.sign(json.dumps(CARD).encode())
        queried = CardSigner([text_of(key)], jku=f"https://{place}{KEYS}?for=a@b").sign(
            json.dumps(CARD).encode()
        )
        plain = CardSigner([text_of(key)], jku=f"http://{place}{KEYS}").sign(json.dumps(CARD).encode())
        masked = CardSigner([text_of(key)], jku=f"https://{place}@evil.example{KEYS}").sign(
            json.dumps(CARD).encode()
        )
        trust = CardTrust([], jku_hosts=[place], ca=certificate, required=True)
        for accepted in (document, queried):
            assert json.loads(await trust.check(accepted, "here"))["name"] == "Weather"
        other = CardTrust([], jku_hosts=["127.0.0.1"], ca=certificate, required=True)  # its port 443
        for judge, rejected in ((other, document), (trust, plain), (trust, masked)):
            with pytest.raises(A2AError, match="not one of the configured keys"):
                await judge.check(rejected, "here")


@pytest.mark.parametrize("kind", ["ES256", "EdDSA"])
@pytest.mark.parametrize("shown", [weather, secured, keyed], ids=["plain", "secured", "keyed"])
async def test_the_verifier_of_the_python_sdk_accepts_ours(kind: str, shown: Agent) -> None:
    pytest.importorskip("jwt", reason="a2a-sdk[signing] is not installed")
    from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
    from jwt.api_jwk import PyJWK

    key = new_key(kind)
    async with serve(shown, options=signing(key)) as server:
        async with httpx.AsyncClient() as http:
            rows = (await http.get(f"http://{server.http}{KEYS}")).json()["keys"]
            by_id = {row["kid"]: PyJWK(row) for row in rows}
            verifier = create_signature_verifier(lambda kid, _jku: by_id[kid or ""], [kind])
            resolver = A2ACardResolver(http, f"http://{server.http}")
            card = await resolver.get_agent_card(signature_verifier=verifier)
        assert card.name == shown.card.name
        card.supported_interfaces[0].url = "https://evil.example"
        with pytest.raises(InvalidSignaturesError):
            verifier(card)


@pytest.mark.parametrize("empty", [False, True])
async def test_signatures_of_the_python_sdk_are_accepted(empty: bool) -> None:
    pytest.importorskip("jwt", reason="a2a-sdk[signing] is not installed")
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.utils.signing import create_agent_card_signer

    key = new_key()
    card = ParseDict(CARD, AgentCard())
    older = card.supported_interfaces.add()
    older.CopyFrom(card.supported_interfaces[0])
    older.protocol_version = "0.3"
    if empty:
        card.description = ""
        card.skills[0].ClearField("tags")
    sign = create_agent_card_signer(
        key.as_pem(private=True), {"alg": "ES256", "kid": "k1", "typ": "JOSE", "jku": None}
    )
    served = agent_card_to_dict(sign(card))  # with the members of 0.3 beside
    found = verified(served, key)
    document = json.loads(found.document)
    assert document["supportedInterfaces"] == served["supportedInterfaces"]
    assert served["url"] == "https://agent.example/"
    assert found.is_complete is False
    assert "url" not in document
    served["supportedInterfaces"][0]["url"] = "https://evil.example"
    with pytest.raises(ValueError, match="not one of this card"):
        verified(served, key)


JS = """
import { importJWK } from "jose";
import { generateAgentCardSignature, verifyAgentCardSignature } from "a2a-js-1";
console.debug = () => {};
const text = await new Promise((done) => {
  let all = ""; process.stdin.on("data", (part) => (all += part)).on("end", () => done(all));
});
const { served, forged, own, key } = JSON.parse(text);
const pub = { ...key }; delete pub.d;
const verify = verifyAgentCardSignature(async (kid) => {
  if (kid !== key.kid) throw new Error("unknown key");
  return importJWK(pub, "ES256");
});
const answers = [];
for (const card of [served, forged]) {
  answers.push(await verify(card).then(() => true, () => false));
}
const header = { alg: "ES256", kid: key.kid, typ: "JOSE" };
const sign = generateAgentCardSignature(await importJWK(key, "ES256"), header);
console.log(JSON.stringify({ answers, signed: await sign(own) }));
"""


async def test_the_js_sdk_accepts_ours_and_we_accept_its_own() -> None:
    """On JSON: of its own message it forgets the security schemes."""
    folder, node = BUILT / "js", shutil.which("node")
    if node is None or not (folder / "node_modules" / "a2a-js-1").is_dir():
        pytest.skip('node or the JS SDK is absent: make sdks ARGS="a2a-js"')
    key = new_key()
    async with serve(secured, options=signing(key)) as server:
        served = json.loads(await fetched(server))
    assert served["securitySchemes"]
    forged = {**served, "name": "Evil"}
    given = json.dumps({"served": served, "forged": forged, "own": CARD, "key": key.as_dict(private=True)})
    process = await asyncio.create_subprocess_exec(
        *(node, "--input-type=module", "-e", JS),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(given.encode()), PATIENCE)
    assert process.returncode == 0, err.decode()
    answer = json.loads(out)
    assert (answer["answers"], verified(answer["signed"], key).kid) == ([True, False], "k1")
    answer["signed"]["skills"][0]["tags"].reverse()
    with pytest.raises(ValueError, match="not one of this card"):
        verified(answer["signed"], key)


async def test_the_card_of_the_sdk_is_the_card_that_we_serve() -> None:
    """What the SDK parses is what the second signature covers."""
    key = new_key()
    async with serve(weather, options=signing(key)) as server:
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, f"http://{server.http}").get_agent_card()
        assert [one.url for one in card.supported_interfaces] == [
            one.url for one in to_sdk(server.card).supported_interfaces
        ]


async def test_the_rule_holds_at_every_refresh_and_at_every_place(tmp_path: Path) -> None:
    key = new_key()
    trust = CardTrust([jwks(tmp_path, key)], required=True)
    good = CardSigner([text_of(key)]).sign(json.dumps(CARD).encode())
    forged = good.replace(b"https://agent.example/", b"https://evil.example/")
    unsigned = json.dumps(CARD).encode()
    answers = {PATH: good, "/.well-known/agent.json": unsigned}
    asked: list[str] = []

    async def fetch(url: str, _headers: Any) -> Fetched:
        path = url.removeprefix("https://agent.example")
        asked.append(path)
        return Fetched(200, {}, answers[path])  # to be fetched again each time

    resolver = Resolver(fetch, check=trust.check)
    assert (await resolver.resolve("https://agent.example")).name == "Weather"
    for bad, words in ((forged, "is not one of this card"), (unsigned, "is not signed")):
        answers[PATH] = bad
        asked.clear()
        with pytest.raises(A2AError, match=words):
            await resolver.resolve("https://agent.example")
        assert asked == [PATH]  # no search for a card that passes
    answers[PATH] = good
    assert (await resolver.resolve("https://agent.example")).name == "Weather"
