"""Secrets of every kind are in nothing that the command writes; test_admin.py has logs, metrics, traces."""

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from a2a_bridge import connect
from a2a_bridge.app.peer import request_of
from a2a_bridge.auth import KeyFile
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.cli import app
from a2a_bridge.core.masking import mask, without_query_secrets
from tests.cli.commands import ANY_PORT, Running, serving
from tests.patience import PATIENCE

CANARY = "s3cr3t-canary"
URL = f"http://user:{CANARY}@idp.example/?api_key={CANARY}&page=2"
HEADERS = (
    "Authorization: Bearer", "Cookie:", "X-Key:", "Ocp-Apim-Subscription-Key:", "X-Session-Id:", "X-Amz-Signature:",
    "X-JWT:", "X-Password:",
)  # fmt: skip


@pytest.mark.parametrize(
    "printing", [("gateway", "--print-config"), ("config", "show", "gateway", "--origin")]
)
def test_no_printed_configuration_has_a_secret(
    printing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {
        "A2A_BRIDGE_STORE": f"postgresql://bridge:{CANARY}@db.example/x?password={CANARY}",
        "A2A_BRIDGE_KEY": CANARY * 2,
        "A2A_BRIDGE_STORE_KEY": CANARY,
        "A2A_BRIDGE_UPSTREAM_CLIENT_SECRET": CANARY,
        "A2A_BRIDGE_UPSTREAM_TOKEN_URL": URL,
        "A2A_BRIDGE_JWT_ISSUER": URL,
        "A2A_BRIDGE_JWT_JWKS": URL,
        "A2A_BRIDGE_PUBLIC_URL": f"https://{CANARY}@agent.example",
    }
    flags = (
        [part for name in HEADERS for part in ("-H", f"{name} {CANARY}")] if printing[0] == "gateway" else []
    )
    done = CliRunner().invoke(app, [*printing, *flags], env=variables)
    assert done.exit_code == 0, done.stderr
    assert "http://user:***@idp.example/?api_key=***&page=***" in done.stdout
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Authorization", f"Bearer {CANARY}", "Bearer ***"),
        ("Authorization", f"{CANARY} x", "***"),
        ("Cookie", f"session={CANARY}; page=2", "***"),
        ("X-Team", f"{CANARY}", "***"),
        ("A2A-Version", "1.0", "1.0"),
    ],
)
def test_no_frame_has_a_secret(name: str, value: str, expected: str) -> None:
    assert mask(name, value, {"x-team"}) == expected


def test_no_first_line_of_a_frame_has_a_secret() -> None:
    line = without_query_secrets(f"> POST /?key={CANARY}&page=2 HTTP/1.1")
    assert line == "> POST /?key=***&page=2 HTTP/1.1"


AGENT = """
from a2a_bridge import Run, agent

@agent(push_notifications=True)
async def red(run: Run):
    "Remembers nothing."
    yield run.status("working")
    yield run.artifact("done")
"""


def _process(running: Running) -> str:
    """What `ps` shows of a process and its children."""
    pids = [running.process.pid]
    for pid in pids:
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return "\n".join(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids)


def _files(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def _message(url: str, key: str, binding: str) -> None:
    """A task with a webhook, whose receiver has credentials."""
    options = DialOptions(
        parameters={"x-api-key": key, "authorization": f"Bearer {CANARY}"}, timeout=PATIENCE
    )
    request = request_of("hello")
    hook = request.configuration.task_push_notification_config
    hook.url, hook.token = f"http://127.0.0.1:9/?key={CANARY}", CANARY
    hook.authentication.scheme, hook.authentication.credentials = "Bearer", CANARY
    async with connect(url, binding=binding, options=options) as peer:
        await peer.send_message(request)


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_process_database_and_usage_file_has_a_secret(workers: int, tmp_path: Path) -> None:
    """Secrets come by files, by variables, and in requests."""
    (tmp_path / "code").mkdir()
    agent = tmp_path / "code" / "agent.py"
    agent.write_text(AGENT)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    key = KeyFile(secrets / "keys.json").create("ann").text
    data = tmp_path / "data"
    data.mkdir()
    store_key = CliRunner().invoke(app, ["push", "key"]).stdout.strip()
    (secrets / "store.key").write_text(store_key)
    many = ["--workers", "2"] if workers > 1 else ["--usage-file", f"{data}/usage.json"]
    store = "memory://" if workers > 1 else f"sqlite:///{data}/tasks.db"
    flags = [
        *("--api-keys", str(secrets / "keys.json"), "--store", store, "--store-key", f"@{secrets}/store.key"),
        *("--push-allow", "127.0.0.1", "--log-level", "debug", *many),
    ]
    # An interpreter of its own, so that the list of processes has the command line.
    env = {"A2A_BRIDGE_KEY": CANARY * 3, "PYTHONUNBUFFERED": "1"}
    async with serving("serve", f"{agent}:red", *ANY_PORT, *flags, env=env) as running:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            await _message(running.http, key, binding)
        listed = _process(running)
        assert listed.count("--store-key") == (1 if workers == 1 else 3)
        running.signal()
        done = await running.ended()
    seen = {"processes": listed.encode(), "log": (done.err + done.out).encode(), "data": _files(data)}
    assert workers > 1 or b"SendMessage" in seen["data"]
    for place, text in seen.items():
        for secret in (CANARY, key, key.partition(".")[2], store_key):
            assert secret.encode() not in text, place
    assert key.partition(".")[2].encode() not in (secrets / "keys.json").read_bytes()


async def test_several_agents_and_their_gateway_show_no_secret(tmp_path: Path) -> None:
    code = tmp_path / "agent.py"
    code.write_text(AGENT)
    (tmp_path / "secret").write_text(f"Bearer {CANARY}")
    key = KeyFile(tmp_path / "keys.json").create("ann").text
    data = tmp_path / "data"
    data.mkdir()
    async with serving("serve", f"{code}:red", *ANY_PORT, "--push-allow", "127.0.0.1") as behind:
        config = tmp_path / "bridge.toml"
        config.write_text(
            "\n".join(
                f'[agents.{name}]\nupstream = "{behind.http}"\nheader = ["Authorization: @{tmp_path}/secret"]\n'
                f'upstream_auth = "static"\nstore = "sqlite:///{data}/{name}.db"'
                for name in ("red", "blue")
            )
        )
        flags = ["--api-keys", str(tmp_path / "keys.json"), "--log-level", "debug", "--admin", "127.0.0.1:0"]
        async with serving("gateway", "--config", str(config), *ANY_PORT, *flags) as running:
            for name in ("red", "blue"):
                await _message(f"{running.http}/agents/{name}/", key, "JSONRPC")
            async with httpx.AsyncClient(timeout=PATIENCE) as http:
                shown = [
                    (await http.get(f"{running.addresses['admin']}/metrics")).text,
                    (await http.get(f"{running.http}/agents")).text,
                    (await http.get(f"{running.http}/.well-known/ai-catalog.json")).text,
                ]
            shown.append(_process(running))
            running.signal()
            done = await running.ended()
    texts = [*(one.encode() for one in (*shown, done.err, done.out)), _files(data)]
    for text in texts:
        for secret in (CANARY, key, key.partition(".")[2]):
            assert secret.encode() not in text
    assert all(texts[:4])


def test_keys_shows_a_secret_once(tmp_path: Path) -> None:
    """The new key alone on stdout; nothing else of `keys` has it, nor any other secret of the file."""
    file = ["--file", str(tmp_path / "keys.json")]
    runner = CliRunner()
    made = runner.invoke(app, ["keys", "create", *file, "--id", "ann", "--scope", "send"])
    secret = made.stdout.strip().partition(".")[2]
    assert secret not in made.stderr
    salted = json.loads((tmp_path / "keys.json").read_text())
    for arguments in (["list"], ["list", "-o", "json"], ["revoke", "--id", "ann"], ["list"]):
        done = runner.invoke(app, ["keys", arguments[0], *file, *arguments[1:]])
        assert done.exit_code == 0, done.output
        assert secret not in done.output
        assert not [one for one in _texts(salted) if len(one) > 20 and one in done.output]
    assert secret not in (tmp_path / "keys.json").read_text()


def _texts(tree: object) -> list[str]:
    if isinstance(tree, dict):
        return [text for one in tree.values() for text in _texts(one)]
    if isinstance(tree, list):
        return [text for one in tree for text in _texts(one)]
    return [tree] if isinstance(tree, str) else []
