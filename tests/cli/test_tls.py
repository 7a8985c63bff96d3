"""`serve` and `gateway` with TLS on the builtin server: official clients, workers, new files, bad files."""

import asyncio
import json
import ssl
import uuid
from pathlib import Path

import grpc.aio
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import Message, Part, Role, SendMessageRequest

from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, command, serving
from tests.patience import PATIENCE
from tests.signing.scene import new_key, text_of, verified
from tests.signing.test_served import KEYS, PATH, jwks

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: connections in a row that reach every one of two workers
_MANY = 20

ECHO = '''
from a2a_bridge import agent

@agent
async def echo(text: str) -> str:
    """Says what it is told."""
    return text
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "echo.py"
    path.write_text(ECHO)
    return str(path)


@pytest.mark.parametrize("upstream", [False, True], ids=["serve", "gateway"])
async def test_the_official_client_and_ours(upstream: bool, target: str, tmp_path: Path) -> None:
    mine = new_identity()
    certificate, key = mine.written(tmp_path, "server")
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key)
    async with serving("serve", target, *ANY_PORT, *tls) as agent:
        assert agent.http.startswith("https://")
        if not upstream:
            await _is_reached(agent.http, agent.grpc, mine.certificate, certificate)
            return
        arguments = (agent.http, *ANY_PORT, *tls, "--cacert", certificate)
        async with serving("gateway", *arguments) as running:
            await _is_reached(running.http, running.grpc, mine.certificate, certificate)


async def _is_reached(url: str, grpc_address: str, authority: bytes, path: str) -> None:
    trusting = ssl.create_default_context(cadata=authority.decode())
    credentials = grpc.ssl_channel_credentials(authority)
    async with httpx.AsyncClient(verify=trusting) as http:
        document = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        card = await A2ACardResolver(http, url).get_agent_card()
        for binding in BINDINGS:
            config = ClientConfig(
                httpx_client=http,
                streaming=False,
                supported_protocol_bindings=[binding],
                grpc_channel_factory=lambda place: grpc.aio.secure_channel(place, credentials),
            )
            client = ClientFactory(config).create(card)
            message = Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=binding)])
            events = [one async for one in client.send_message(SendMessageRequest(message=message))]
            assert events[0].message.parts[0].text == binding
            await client.close()
    urls = [one["url"] for one in document["supportedInterfaces"]]
    assert {one for one in urls if "://" in one} == {url, f"{url}/"}
    older = [one["url"] for one in document["additionalInterfaces"] if one["transport"] == "GRPC"]
    assert set(older) == {grpc_address, f"https://{grpc_address}"}
    for version in ("1.0", "0.3", "0.2.5"):
        trust = ("--cacert", path, "--a2a-version", version)
        done = await command("compare", "-a", url, "hello", *trust)
        assert (done.code, done.out.count("✓"), "✗" in done.out) == (0, 3, False), done.err + done.out
    done = await command("send", "-a", url, "hello")
    assert done.code != 0
    assert "--cacert names the authority" in done.err


async def _shown(address: str) -> str:
    """The certificate that an HTTP listener shows, as PEM."""
    host, _, port = address.rpartition(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)), timeout=PATIENCE)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_new_files_are_used_without_a_restart(workers: str, target: str, tmp_path: Path) -> None:
    old, new = new_identity(), new_identity()
    certificate, key = old.written(tmp_path, "server")
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--workers", workers, "--log-level", "info")
    async with serving("serve", target, *ANY_PORT, *tls) as running:
        address = running.http.removeprefix("https://")
        assert running.http != address
        assert await _shown(address) == old.certificate.decode()
        for source, name in zip(new.written(tmp_path, "new"), (certificate, key), strict=True):
            Path(source).replace(name)  # noqa: ASYNC240
        in_a_row = 0
        async with asyncio.timeout(PATIENCE):
            while in_a_row < _MANY:
                in_a_row = in_a_row + 1 if await _shown(address) == new.certificate.decode() else 0
        credentials = grpc.ssl_channel_credentials(new.certificate)
        async with grpc.aio.secure_channel(running.grpc, credentials) as channel:
            call = channel.unary_unary("/grpc.health.v1.Health/Check")(
                b"", timeout=PATIENCE, wait_for_ready=True
            )
            assert await call.code() is grpc.StatusCode.OK
        done = await running.ended_by_signal()
    assert done.err.count("new connections get the certificate") == int(workers)


@pytest.mark.parametrize(
    ("flags", "flag", "words"),
    [
        (("--ssl-certfile", "absent.pem"), "--ssl-certfile", "cannot be read: No such file"),
        (("--ssl-certfile", "server.pem"), "--ssl-certfile", "--ssl-keyfile names its file"),
        (("--ssl-certfile", "server.pem", "--ssl-keyfile", "other.key"), "--ssl-keyfile", "is not the key"),
        (("--ssl-keyfile", "server.key"), "--ssl-keyfile", "needs --ssl-certfile"),
        (("--ssl-ca-certs", "server.pem"), "--ssl-ca-certs", "needs --ssl-certfile"),
        (
            ("--ssl-certfile", "both.pem", "--ssl-cert-reqs", "optional"),
            "--ssl-cert-reqs",
            "needs --ssl-ca-certs",
        ),
        (("--ssl-cert-reqs", "required"), "--ssl-cert-reqs", "needs --ssl-ca-certs"),
        (("--ssl-certfile", "both.pem", "--ssl-ca-certs", "server.key"), "--ssl-ca-certs", "no certificate"),
        (
            ("--server", "envoy", "--ssl-certfile", "server.pem", "--ssl-keyfile", "other.key"),
            "--ssl-keyfile",
            "is not the key",
        ),
    ],
)
async def test_bad_files_end_the_start(
    flags: tuple[str, ...], flag: str, words: str, target: str, tmp_path: Path
) -> None:
    certificate, key = new_identity().written(tmp_path, "server")
    new_identity().written(tmp_path, "other")
    (tmp_path / "both.pem").write_bytes(Path(certificate).read_bytes() + Path(key).read_bytes())  # noqa: ASYNC240
    given = [str(tmp_path / one) if one.endswith((".pem", ".key")) else one for one in flags]
    done = await command("serve", target, *given, env={"COLUMNS": "500"})
    assert done.code == 2
    assert f"Invalid value for {flag}" in done.err
    assert words in done.err


async def test_an_expired_certificate_is_a_warning_at_the_start(target: str, tmp_path: Path) -> None:
    certificate, key = new_identity(begins=-3, ends=-2).written(tmp_path, "server")
    async with serving(
        "serve", target, *ANY_PORT, "--ssl-certfile", certificate, "--ssl-keyfile", key
    ) as running:
        done = await command("send", "-a", running.http, "hello", "--cacert", certificate)
        assert done.code != 0
        assert "has expired: its operator has to renew it" in done.err
        done = await running.ended_by_signal()
    assert "has expired on" in done.err


# `--card-signing-key`, `--card-keys` and `--require-signed-card` as commands.


AGENT = '''
from a2a_bridge import agent

@agent
async def echo(text: str) -> str:
    """Says what it is told."""
    return text
'''


@pytest.fixture
def signing_target(tmp_path: Path) -> str:
    path = tmp_path / "echo.py"
    path.write_text(AGENT)
    return str(path)


async def shown(url: str, path: str = PATH) -> bytes:
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{url}{path}")).content


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_signed_agent_behind_a_gateway_that_signs(
    workers: str, signing_target: str, tmp_path: Path
) -> None:
    theirs, old, ours = new_key(kid="theirs"), new_key(kid="old"), new_key("EdDSA", kid="ours")
    files = {}
    for key in (theirs, old, ours):
        files[key.get("kid")] = path = tmp_path / f"{key.get('kid')}.json"
        path.write_text(text_of(key))
    sign = ("--card-signing-key", str(files["theirs"]))
    async with serving("serve", signing_target, *ANY_PORT, *sign, "--workers", workers) as agent:
        assert verified(await shown(agent.http), theirs).is_complete
        rule = ("--card-keys", f"{agent.http}{KEYS}", "--require-signed-card")
        resign = [part for name in ("ours", "old") for part in ("--card-signing-key", str(files[name]))]
        async with serving("gateway", agent.http, *ANY_PORT, *rule, *resign) as gateway:
            assert verified(await shown(gateway.http), ours).is_complete
            published = json.loads(await shown(gateway.http, KEYS))["keys"]
            assert [row["kid"] for row in published] == ["ours", "old"]
            done = await command("send", "-a", gateway.http, "hello")
            assert (done.code, done.text) == (0, "hello"), done.err
        strange = ("--card-keys", jwks(tmp_path, ours), "--require-signed-card")
        done = await command("gateway", agent.http, *ANY_PORT, *strange)
        assert done.code != 0
        assert "has no valid signature: the key 'theirs' is not one of the configured keys" in done.err
        card = tmp_path / "card.json"
        card.write_bytes(await shown(agent.http))
        rule = ("--card-keys", jwks(tmp_path, theirs), "--require-signed-card", "--card", str(card))
        async with serving("gateway", agent.grpc, *ANY_PORT, *rule) as gateway:
            assert "signatures" not in json.loads(await shown(gateway.http))
        card.write_bytes(card.read_bytes().replace(b'"echo"', b'"evil"', 1))
        done = await command("gateway", agent.grpc, *ANY_PORT, *rule)
        assert done.code != 0
        assert "is not one of this card" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve", "{target}", "--card-signing-key", "absent.pem"), "absent.pem cannot be read"),
        (("serve", "{target}", "--card-signing-key", "{target}"), "has to be a private EC or Ed25519 key"),
        (("serve", "{target}", "--card-signing-key", "{key}", "--no-http"), "the card is served over HTTP"),
        (("serve", "{target}", "--card-signing-key", "{key}", "--http", "0.0.0.0:0"), "needs --public-url"),
        (("gateway", "http://127.0.0.1:1", "--require-signed-card"), "needs --card-keys FILE|URL"),
        (("gateway", "http://127.0.0.1:1", "--card-keys", "absent.json"), "absent.json cannot be read"),
        (("gateway", "http://127.0.0.1:1", "--card-keys", "{target}"), "has no keys"),
        (("card", "get", "-a", "{target}", "--card-keys", "absent.json"), "absent.json cannot be read"),
        (("gateway", "127.0.0.1:1", "--card-keys", "{keys}"), "where its signature cannot be checked"),
    ],
)
async def test_what_cannot_be_done_is_said(
    arguments: tuple[str, ...], words: str, signing_target: str, tmp_path: Path
) -> None:
    key = new_key()
    (tmp_path / "key.json").write_text(text_of(key))
    names = {"target": signing_target, "key": str(tmp_path / "key.json"), "keys": jwks(tmp_path, key)}
    done = await command(*(one.format(**names) for one in arguments), env={"COLUMNS": "500"})
    assert done.code == 2
    assert words in done.err
