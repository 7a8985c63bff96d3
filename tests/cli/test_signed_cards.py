"""`--card-signing-key`, `--card-keys` and `--require-signed-card` as commands."""

import json
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import ANY_PORT, command, serving
from tests.signing.scene import new_key, text_of, verified
from tests.signing.test_served import KEYS, PATH, jwks

AGENT = '''
from a2a_bridge import agent

@agent
async def echo(text: str) -> str:
    """Says what it is told."""
    return text
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "echo.py"
    path.write_text(AGENT)
    return str(path)


async def shown(url: str, path: str = PATH) -> bytes:
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{url}{path}")).content


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_signed_agent_behind_a_gateway_that_signs(workers: str, target: str, tmp_path: Path) -> None:
    theirs, old, ours = new_key(kid="theirs"), new_key(kid="old"), new_key("EdDSA", kid="ours")
    files = {}
    for key in (theirs, old, ours):
        files[key.get("kid")] = path = tmp_path / f"{key.get('kid')}.json"
        path.write_text(text_of(key))
    sign = ("--card-signing-key", str(files["theirs"]))
    async with serving("serve", target, *ANY_PORT, *sign, "--workers", workers) as agent:
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
    arguments: tuple[str, ...], words: str, target: str, tmp_path: Path
) -> None:
    key = new_key()
    (tmp_path / "key.json").write_text(text_of(key))
    names = {"target": target, "key": str(tmp_path / "key.json"), "keys": jwks(tmp_path, key)}
    done = await command(*(one.format(**names) for one in arguments), env={"COLUMNS": "500"})
    assert done.code == 2
    assert words in done.err
