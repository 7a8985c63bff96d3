"""`a2a-bridge check` as a process: text, one document, JUnit, exit codes, and our own server in its cells."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from aiohttp import ClientSession

from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, command, serving
from tests.tools.check.scripted import Script, scripted

AGENT = """
from a2a_bridge import agent

@agent
async def echo(text):
    "Repeats the text."
    return text
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    file = tmp_path / "echo.py"
    file.write_text(AGENT)
    return str(file)


async def test_an_agent_in_code_is_served_meanwhile(code: str) -> None:
    done = await command("check", code)
    assert done.code == 0, done.out
    assert not done.err
    assert "✗" not in done.out
    assert "✓ answers                the same over all 9 interfaces" in done.out
    # It is pasted into reports of faults: one page.
    lines = done.out.splitlines()
    assert len(lines) <= 40
    assert all(len(line) <= 100 for line in lines)
    counts = {mark: sum(line.startswith(f"{mark} ") for line in lines) for mark in "✓!"}
    assert lines[-1] == f"{counts['✓']} ✓, {counts['!']} !"
    # What has an advice is no ✓.
    advised = [lines[number - 1] for number, line in enumerate(lines) if line.lstrip().startswith("→")]
    assert not [line for line in advised if line.startswith("✓")]


async def test_a_document(code: str) -> None:
    done = await command("check", code, "-o", "json")
    assert done.code == 0
    assert done.json["ok"] is True
    assert all(one.keys() == {"name", "ok", "warning", "detail", "fix"} for one in done.json["steps"])
    warnings = [one for one in done.json["steps"] if one["warning"]]
    assert done.json["warnings"] == len(warnings) > 0
    assert {"TCP", "card", "answers"} <= {one["name"] for one in done.json["steps"]}
    assert all(one["ok"] and one["fix"] for one in warnings)
    assert not [one for one in done.json["steps"] if one["ok"] and one["fix"] and not one["warning"]]


async def test_warnings_count_with_strict(code: str) -> None:
    done = await command("check", code, "--strict")
    assert done.code == 1
    assert "✗" not in done.out
    assert "! SDKs" in done.out


async def test_a_fault(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    async with scripted(Script(wire=("0.3",))) as url:
        text = await command("check", url, "--junit", str(report))
        document = await command("check", url, "-o", "json", "--no-send")
    assert (text.code, document.code) == (1, 1)
    assert "✗ JSONRPC 1.0" in text.out
    assert '→ write "protocolVersion": "0.3"' in text.out
    assert not text.err
    assert document.json["ok"] is False
    (wrong,) = (one for one in document.json["steps"] if not one["ok"])
    assert wrong["name"] == "JSONRPC 1.0"
    assert '"protocolVersion": "0.3"' in wrong["fix"]
    suite = ElementTree.parse(report).getroot()  # noqa: S314  our own file
    assert suite.get("failures") == "1"
    assert int(suite.get("tests", "0")) == len(suite.findall("testcase"))
    (case,) = (one for one in suite.findall("testcase") if one.find("failure") is not None)
    assert case.get("name") == "JSONRPC 1.0"


async def test_what_an_agent_writes_cannot_control_a_terminal() -> None:
    card = {"/.well-known/agent-card.json": {"name": "\x1b[31mred\x07"}}
    async with scripted(Script(cards=card)) as url:
        done = await command("check", url, "--no-send")
    assert done.code == 0
    assert "red" in done.out
    assert done.out.isprintable() or "\x1b" not in done.out


@pytest.mark.parametrize("more", [(), ("-o", "json")], ids=["text", "json"])
async def test_nobody_there(more: tuple[str, ...]) -> None:
    done = await command("check", ":1", *more)
    assert done.code == 3
    if more:
        assert done.json["ok"] is False
    else:
        assert "✗ TCP" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "no target"),
        ((":8080", "--webhook", "8080x"), "--webhook"),
        ((":8080", "--junit", "/nonexistent/report.xml"), "--junit"),
    ],
)
async def test_a_command_line_that_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    done = await command("check", *arguments)
    assert done.code == 2
    assert said in done.err


async def test_a_card_in_a_file(tmp_path: Path, code: str) -> None:
    async with serving("serve", code, *ANY_PORT) as server:
        file = tmp_path / "card.json"
        async with (
            ClientSession() as session,
            session.get(f"{server.http}/.well-known/agent-card.json") as card,
        ):
            file.write_bytes(await card.read())
        done = await command("check", str(file), "-o", "json")
    assert done.code == 0, done.out
    assert "answers" in {one["name"] for one in done.json["steps"]}


async def test_api_keys_and_tls(tmp_path: Path, code: str) -> None:
    keys, (certificate, key) = tmp_path / "keys.json", new_identity().written(tmp_path, "own")
    made = await command("keys", "create", "--file", str(keys), "--id", "ana", "-o", "json")
    edge = ("--api-keys", str(keys), "--ssl-certfile", certificate, "--ssl-keyfile", key)
    async with serving("serve", code, *ANY_PORT, *edge) as server:
        trusting = ("check", server.http, "--cacert", certificate, "-o", "json")
        asked = await command(*trusting)
        given = await command(*trusting, "-H", f"X-API-Key: {made.json['key']}")
        wrong = await command(*trusting, "-H", "X-API-Key: other")
        untrusting = await command("check", server.http, "-o", "json")
    assert asked.code == 0, asked.out
    assert "message" not in {one["name"] for one in asked.json["steps"]}
    assert given.code == 0, given.out
    found = {one["name"]: one for one in given.json["steps"]}
    assert "all 9" in found["answers"]["detail"]
    assert "asks for" in found["authentication"]["detail"]
    assert made.json["key"] not in given.out
    assert wrong.code == 1
    assert untrusting.code == 1
    assert [one["name"] for one in untrusting.json["steps"] if not one["ok"]] == ["TLS chain"]


async def test_through_a_gateway(code: str) -> None:
    async with (
        serving("serve", code, *ANY_PORT) as upstream,
        serving("gateway", upstream.http, *ANY_PORT) as gateway,
    ):
        done = await command("check", gateway.http, "-o", "json")
    assert done.code == 0, done.out


async def test_secrets_are_in_no_report(tmp_path: Path) -> None:
    """An agent that repeats what it was sent, and a URL with a key."""
    report = tmp_path / "report.xml"
    said = {"code": -32603, "message": "you sent Bearer s3cret-token to http://me:passw0rd@127.0.0.1/"}
    path = "/.well-known/agent-card.json"
    async with scripted(Script(rejection=said)) as url:
        target = f"{url}{path}?api_key=k3y-of-mine"
        headers = ("-H", "Authorization: Bearer s3cret-token")
        done = await command("check", target, *headers, "-o", "json", "--junit", str(report))
        text = await command("check", target, *headers)
    assert done.code == text.code == 1
    for output in (done.out, done.err, text.out, text.err, report.read_text()):
        for secret in ("s3cret-token", "passw0rd", "k3y-of-mine"):
            assert secret not in output
    assert "you sent ***" in text.out
