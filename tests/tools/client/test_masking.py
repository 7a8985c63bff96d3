"""Credentials are masked by their value, under whatever name and wherever they stand."""

import json
import sys
from pathlib import Path

import pytest
from aiohttp import web
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.core.masking import Secrets, without_query_values
from tests.cli.commands import ANY_PORT, command, serving
from tests.tools.client.live import Live
from tests.tools.client.test_cards import KEY, NAMED, WELL_KNOWN, Site, card_at, site
from tests.tools.playground.api import api_of


class Echo(Site):
    """Repeats in its answer what it was sent, as frameworks do in their error pages."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.documents:
            return await super().answer(request)
        said = f"{request.path_qs} {dict(request.headers)}"
        self.requests.append(said)
        document = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": said}}
        return web.json_response(document, headers={"Location": request.path_qs, "X-Echo": said})


@pytest.mark.parametrize("location", ["query", "header", "cookie"])
@pytest.mark.parametrize("words", [("task", "get", "t"), ("compare", "hi"), ("send", "hi")], ids=" ".join)
async def test_a_credential_under_a_plain_name(words: tuple[str, ...], location: str, tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    async with site(NAMED, Echo) as near:
        near.documents["/card.json"] = card_at(near.place, location)
        secrets = ("--api-key", KEY, "-H", f"Authorization: Bearer {KEY}-2")
        done = await command(
            *words, "-a", f"{near.place}/card.json?k={KEY}-3", *secrets, "--debug", "--record", str(file)
        )
        assert any(KEY in one and f"{KEY}-2" in one for one in near.requests), near.requests
    frames = "".join(line for line in done.err.splitlines() if line.startswith((">", "<")))
    assert KEY not in done.err
    assert "***" in frames
    assert KEY not in file.read_text()
    assert "***" in file.read_text()


@pytest.mark.parametrize("words", [("task", "get", "t"), ("send", "hi", "--stream")], ids=" ".join)
async def test_a_credential_that_an_error_repeats(words: tuple[str, ...]) -> None:
    async with site(NAMED, Echo) as near:
        near.documents["/card.json"] = card_at(near.place, "query")
        done = await command(*words, "-a", f"{near.place}/card.json", "--api-key", KEY, "-o", "json")
        assert any(KEY in one for one in near.requests), near.requests
    assert done.code == 1, done.err
    assert "***" in done.json["error"]["message"]
    assert "***" in done.err
    assert KEY not in done.out + done.err


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_secret_of_a_flag_in_the_body(demo: dict[str, str], binding: str, tmp_path: Path) -> None:
    file, kept = tmp_path / "record.ndjson", tmp_path / "token"
    kept.write_text(f"{KEY}\n")
    agent = Live(demo["http"], binding, {"work": "tck-cancel"})
    task = await agent.task("work", "--async")
    words = ("task", "push-config", "create", task["id"], "--url", "https://hook.example/x")
    for token in (KEY, f"@{kept}"):
        made = await agent.run(*words, "--token", token, "--debug", "--record", str(file))
        assert made.code == 0, made.err
        assert KEY not in file.read_text() + made.err
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert [rows[0]["request"].get("token")] == ["***"]
        assert [row for row in rows if row.get("base64") == "***"] or binding != "GRPC"
    await agent.run("task", "cancel", task["id"])


@pytest.mark.parametrize("printing", [("gateway", "--print-config"), ("config", "show", "gateway")])
def test_every_value_in_the_query_of_a_configured_url(printing: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    url = f"https://idp.example/?k={KEY}&page=2"
    members = f'upstream_token_url = "{url}"\nendpoint = ["{url}"]\n'
    for content in (members, f'[agents.one]\nupstream = "{url}"\n{members}'):
        file.write_text(content)
        done = CliRunner().invoke(app, [*printing, "--config", str(file)])
        assert done.exit_code == 0, done.stderr
        assert KEY not in done.stdout + done.stderr
        hidden = done.stdout.count("https://idp.example/?k=***&page=***")
        assert hidden == 2 + ("agents" in content), done.stdout


async def test_the_report_of_a_check_hides_the_query_of_its_target() -> None:
    async with site(NAMED) as near:
        near.documents["/card.json"] = card_at(near.place)
        done = await command("check", f"{near.place}/card.json?k={KEY}", "-o", "json")
    assert KEY not in done.out + done.err
    assert done.json["target"].endswith("card.json?k=***")


async def test_the_playground_shows_no_credential_of_a_scheme() -> None:
    async with site(NAMED, Echo) as near:
        near.documents[WELL_KNOWN] = card_at(near.place, "header")
        flags = ("--ui", "-H", f"X-Own-Token: {KEY}-2", "--forward", "k", *ANY_PORT)
        async with serving("gateway", near.place, *flags) as running, api_of(running) as api:
            lines = await api.call("GetTask", {"id": "t"}, "JSONRPC 1.0", headers={"k": f"{KEY}-3"})
            assert any(f"{KEY}-2" in one and f"{KEY}-3" in one for one in near.requests)
    frames = [one for one in lines if "sent" in one]
    assert {one["hop"] for one in frames} == {"client", "upstream"}
    assert [one for one in frames if KEY in json.dumps(one)] == []


async def test_a_record_on_a_file_that_others_can_read(one: Live, tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    file.write_text("")
    for mode, warns in ((0o644, sys.platform != "win32"), (0o600, False)):
        file.chmod(mode)
        done = await one.run("task", "list", "--record", str(file))
        assert done.code == 0, done.err
        assert (f"{file} has mode 0644" in done.err) is warns


async def test_a_token_for_all_agents_and_an_agent_of_a_folder(
    one: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    below = project / "below"
    (home / "a2a-cli").mkdir(parents=True)
    below.mkdir(parents=True)
    everywhere, local = home / "a2a-cli" / ".env", project / ".env"
    everywhere.write_text(f"A2ACLI_BEARER={KEY}\n")
    everywhere.chmod(0o600)
    local.write_text(f"A2ACLI_AGENT_CARD={one.reference}\n")
    local.chmod(0o600)
    monkeypatch.chdir(below)

    async def warnings(*words: str, **more: str) -> bool:
        done = await command("task", "list", *words, env={"XDG_CONFIG_HOME": str(home), **more})
        assert done.code == 0, done.err
        assert (str(everywhere) in done.err) is (str(local) in done.err)
        return str(everywhere) in done.err

    assert await warnings()
    assert not await warnings("-a", one.reference)
    assert not await warnings("--env-file", str(local))
    assert not await warnings(A2ACLI_AGENT_CARD=one.reference)
    assert not await warnings("--bearer", "own")
    local.write_text(f"A2ACLI_AGENT_CARD={one.reference}\nA2ACLI_BEARER=own\n")
    assert not await warnings()


def test_values_in_every_form() -> None:
    secrets = Secrets.of({"authorization": 'Bearer a"b c/d', "x-team": "blue green"}, {"k": "ä&=1234"})
    assert secrets.head("GET /?k=%C3%A4%26%3D1234&x=1 HTTP/1.1") == "GET /?k=***&x=1 HTTP/1.1"
    assert secrets.text(r'{"said": "a\"b c/d", "and": "a%22b%20c%2Fd", "or": "a%22b+c%2Fd"}') == (
        '{"said": "***", "and": "***", "or": "***"}'
    )
    assert secrets.text("blue green") == "blue green"  # no name says that it is a credential
    assert secrets.header("X-Team", "blue green") == "***"
    assert secrets.are_in(b'x a"b c/d')
    short = Secrets.of({}, {"k": "12"})
    assert (short.head("/?k=12&n=12"), short.text("12 apples")) == ("/?k=***&n=12", "12 apples")
    assert without_query_values("https://h/p?a=1&b=&c#d") == "https://h/p?a=***&b=&c#d"
