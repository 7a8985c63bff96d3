"""The requirements about options, errors, credentials, transports, versions, configuration (`make cli`)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.cli.specification import CODES, ERROR
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering
from tests.cli.commands import agent, card, command
from tests.tools.client.live import Live, states
from tests.tools.specification import DEFAULTS

req = pytest.mark.requirement


@pytest.fixture
def probe() -> Probe:
    return Probe()


@req("INTERACT_003", "VER_001")
async def test_no_identifier_of_the_server_is_made_up(probe: Probe) -> None:
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    async with agent(probe) as server:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            await command("send", "-a", f"http://{server.http}", "hi", "--async", "--transport", binding)
            assert (probe.last.request.message.task_id, probe.last.request.message.context_id) == ("", "")
            assert probe.last.request.message.message_id
            assert probe.last.context.origin.version == "1.0"


@req("INTERACT_005", "CONFIG_001")
async def test_nothing_is_remembered(one: Live, tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    await one.send("ask", env=env)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240
    shown = await command("send", "--help")
    assert "--continue" not in shown.out


@req("EXIT_001", "OUT_004")
@pytest.mark.parametrize("code", CODES)
async def test_every_code_of_the_tool_has_its_exit_code(
    code: str, tmp_path: Path, unused_tcp_port: int, probe: Probe
) -> None:
    probe.on_unary = answering(A2AError(Reason.UNAUTHENTICATED))
    if code in ("TIMEOUT", "INTERNAL"):
        probe.on_unary = answering(A2AError(Reason.DEADLINE_EXCEEDED))
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    async with agent(probe) as server:
        url = f"http://{server.http}"
        words = {
            "USAGE": ("send", "-a", url),
            "CARD_NOT_FOUND": ("card", "get", "-a", f"{url}/none.json"),
            "CARD_INVALID": ("card", "get", "-a", str(bad)),
            "UNREACHABLE": ("card", "get", "-a", f":{unused_tcp_port}"),
            "CREDENTIALS_MISSING": ("send", "-a", url, "hi", "--async"),
            "AUTH_FAILED": ("send", "-a", url, "hi", "--async", "--bearer", "wrong"),
            "TIMEOUT": ("send", "-a", url, "hi", "--async"),
            "INTERNAL": ("send", "-a", f"{tmp_path / 'broken.py'}", "hi", "-e", ""),
        }[code]
        if code == "INTERNAL":
            (tmp_path / "broken.py").write_text(
                "from a2a_bridge import agent\n"
                "@agent\n"
                "async def broken(text): return text\n"
                "broken.card = None\n"
            )
        done = await command(*words, "-o", "json")
    assert (done.json["error"]["code"], done.code) == (ERROR + code, CODES[code]), done.err
    assert set(done.json["error"]) == {"code", "message", "hint", "a2aCode"}


@req("AUTH_001", "AUTH_002", "AUTH_008")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_credentials_go_where_the_card_wants_them(binding: str, probe: Probe) -> None:
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    shown = card()
    shown.security_schemes["key"].api_key_security_scheme.location = "header"
    shown.security_schemes["key"].api_key_security_scheme.name = "X-Own"
    shown.security_schemes["bearer"].http_auth_security_scheme.scheme = "Bearer"
    async with agent(probe, shown=shown) as server:
        words = ("send", "hi", "-a", f"http://{server.http}", "--async", "--transport", binding)
        env = {"A2ACLI_BEARER": "of-the-variable", "A2ACLI_API_KEY": "key-1"}
        for flags, bearer in (((), "of-the-variable"), (("--bearer", "of-the-flag"), "of-the-flag")):
            done = await command(*words, *flags, "--svc-param", "x-trace:1", "--debug", env=env)
            assert done.code == 0, done.err
            sent = probe.last.context.parameters
            assert (sent["authorization"], sent["x-own"], sent["x-trace"]) == (
                f"Bearer {bearer}",
                "key-1",
                "1",
            )
            assert not any(secret in done.err for secret in ("of-the-", "key-1"))


@req("AUTH_001")
async def test_api_keys_in_the_query_and_in_a_cookie(probe: Probe) -> None:
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    for location, expected in (("query", "?key=k%261"), ("cookie", "key=k&1")):
        shown = card()
        scheme = shown.security_schemes["key"].api_key_security_scheme
        scheme.location, scheme.name = location, "key"
        async with agent(probe, shown=shown) as server:
            for binding in ("JSONRPC", "HTTP+JSON"):
                words = ("send", "hi", "-a", f"http://{server.http}", "--async", "--transport", binding)
                done = await command(*words, "--debug", "--api-key", "k&1")
                assert done.code == 0, done.err
                assert "k%261" not in done.err
                assert "k&1" not in done.err
                if location == "cookie":
                    assert probe.last.context.parameters["cookie"] == expected
                else:
                    assert "key=***" in done.err


@req("AUTH_002", "CLI_001", "DEFAULT_001")
async def test_help_says_what_is_visible_and_shows_defaults(one: Live) -> None:
    done = await command("send", "--help")
    flat = " ".join(done.out.split())
    assert "other users can see it in the process table: prefer A2ACLI_BEARER" in flat
    assert "[default: text]" in flat
    for flag in DEFAULTS.values():
        assert flag in done.out
    for words in (("help",), ("help", "task", "get"), ("task", "get", "--help"), ("--help",)):
        shown = await command(*words)
        assert (shown.code, shown.out.startswith("Usage: ")) == (0, True)
    for words in (("--version",), ("-v",)):
        version = await command(*words)
        assert version.out.startswith("a2a-bridge ")
    assert one.reference


@req("AUTH_003", "DEFAULT_001")
async def test_unverified_certificates_are_a_warning(one: Live) -> None:
    plain = await one.send("message", "--insecure")
    with_secret = await one.send("message", "--insecure", "--bearer", "t0ken")
    assert "warning: certificates are not verified" in plain.err
    for words in (("compare", "hello"), ("card", "get")):
        done = await command(*words, "-a", one.reference, "--insecure")
        assert done.err.count("warning: certificates are not verified") == 1
        assert "CREDENTIALS" not in done.err
    over_grpc = await command("send", "hello", "-a", one.reference, "--transport", "GRPC", "--insecure")
    assert "gRPC verifies certificates all the same" in over_grpc.err
    assert "CREDENTIALS" in with_secret.err
    assert "t0ken" not in with_secret.err + with_secret.out


@req("AUTH_004", "OUT_007")
async def test_debug_shows_the_wire_and_no_credential(live: Live) -> None:
    secrets = ("--bearer", "s3cret-1", "--svc-param", "x-whatever:s3cret-2")
    done = await live.send("message", "--debug", "--verbose", *secrets)
    assert done.code == 0, done.err
    assert any(line.startswith("> ") for line in done.err.splitlines())
    assert any(line.startswith("< ") for line in done.err.splitlines())
    assert "s3cret" not in done.out + done.err


@req("TX_001", "TX_002", "DEFAULT_001")
async def test_the_order_of_the_card_and_that_of_the_caller(probe: Probe) -> None:
    probe.on_unary = answering(
        hub.SendMessageResponse(message=hub.Message(message_id="m", role=hub.ROLE_AGENT))
    )
    order = ("HTTP+JSON", "GRPC", "JSONRPC")
    for flags, used in (
        ((), order[0]),
        (("--transport", "jsonrpc"), "JSONRPC"),
        (("--transport", "GRPC", "--transport", "JSONRPC"), "GRPC"),
    ):
        async with agent(probe, *order) as server:
            done = await command("send", "hi", "-a", f"http://{server.http}", "--async", *flags)
        assert done.code == 0, done.err
        assert probe.last.context.origin.binding == used
    async with agent(probe, "JSONRPC") as server:
        words = ("send", "hi", "-a", f"http://{server.http}", "--async")
        done = await command(*words, "--transport", "GRPC", "--transport", "JSONRPC")
        other = await command(*words, "--transport", "GRPC")
    assert (done.code, other.code) == (0, 0)
    assert "the card offers no GRPC" in other.err


@req("TX_003")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_the_tenant_of_the_interface_is_in_every_request(
    binding: str, tenant: str, tmp_path: Path, probe: Probe
) -> None:
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    async with agent(probe, binding) as server:
        url = str(server.grpc) if binding == "GRPC" else f"http://{server.http}"
        place = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0", "tenant": tenant}
        file = tmp_path / "card.json"
        file.write_text(json.dumps({"name": "x", "capabilities": {}, "supportedInterfaces": [place]}))
        for words in (("task", "get", "t"), ("task", "cancel", "t"), ("send", "hi", "--async")):
            await command(*words, "-a", str(file))
            assert (probe.last.context.tenant or probe.last.request.tenant) == tenant


@req("VER_001", "DEFAULT_001")
async def test_versions_below_1_0_only_when_asked_for(older: Live) -> None:
    rejected = await command("send", "hello", "-a", older.reference, "-o", "json")
    assert (rejected.code, rejected.json["error"]["code"]) == (1, "VersionNotSupportedError")
    assert rejected.json["error"]["hint"] == "--a2a-version 0.3"
    task = await older.task("artifact")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    streamed = await older.send("chunks", "--stream", "-o", "json")
    assert states(streamed)[-1] == "completed"


@req("VER_003")
async def test_what_the_card_does_not_offer_is_not_asked_for(probe: Probe) -> None:
    probe.on_unary = answering(
        hub.SendMessageResponse(task=hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED)))
    )
    async with agent(probe, shown=card(capabilities=None)) as server:
        url = ("-a", f"http://{server.http}", "-o", "json")
        hook = await command("task", "push-config", "create", "t", "--url", "https://x.example", *url)
        extended = await command("card", "get", "--extended", *url)
        assert not probe.calls
        streamed = await command("send", "hi", "--stream", *url)
    assert hook.json["error"]["code"] == "PushNotificationNotSupportedError"
    assert extended.json["error"]["code"] == "UnsupportedOperationError"
    assert [next(iter(line)) for line in streamed.lines] == ["task"]
    assert [call.operation.name for call in probe.calls] == ["SendMessage"]


@req("CONFIG_002", "CONFIG_001", "AUTH_002")
async def test_the_order_of_flags_variables_and_files(
    one: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "project" / "deep"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    home = tmp_path / "config"
    (home / "a2a-cli").mkdir(parents=True)
    (home / "a2a-cli" / ".env").write_text(
        f"A2ACLI_AGENT_CARD={one.reference}\nA2ACLI_TIMEOUT=1\nA2ACLI_POLL_INTERVAL=3\nA2ACLI_STREAM=1\n"
    )
    local = tmp_path / "project" / ".env"
    local.write_text(
        "OTHER=x y\n# A2ACLI_TIMEOUT=9\nexport A2ACLI_TIMEOUT='2'\nA2ACLI_BEARER=\"s3cret\"  # mine\n"
    )
    named = tmp_path / "named.env"
    named.write_text("A2ACLI_TIMEOUT=4\n")
    env = {"XDG_CONFIG_HOME": str(home)}

    async def timeout(*flags: str, **more: str) -> tuple[Any, str]:
        done = await command("config", "show", "-o", "json", *flags, env=env | more)
        assert "s3cret" not in done.out + done.err
        row = done.json["--timeout"]
        return row["value"], row["source"]

    assert await timeout() == (2.0, f"file {local}")
    assert await timeout("--env-file", str(named)) == (4.0, f"file {named}")
    assert await timeout("--config", str(named)) == (4.0, f"file {named}")
    assert await timeout(A2ACLI_TIMEOUT="5s") == (5.0, "variable A2ACLI_TIMEOUT")
    assert await timeout("--timeout", "6", A2ACLI_TIMEOUT="5s") == (6.0, "flag")
    shown = await command("config", "show", "-o", "json", env=env)
    assert shown.json["--poll-interval"] == {"value": 3.0, "source": f"file {home / 'a2a-cli' / '.env'}"}
    assert shown.json["--verbose"] == {"value": False, "source": "default"}
    sent = await command("send", one.text("message"), "-o", "json", env=env)
    assert sent.json["message"]
    assert "others may read it" in sent.err
    local.write_text("A2ACLI_TIMEOUT 2\n")
    wrong = await command("config", "show", env=env)
    assert (wrong.code, f"{local}:1" in wrong.err) == (2, True)


@req("CLI_002")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
async def test_completion_scripts(shell: str) -> None:
    done = await command("completion", shell)
    assert done.code == 0
    assert "_A2A_BRIDGE_COMPLETE" in done.out
    assert (await command("completion", "tcsh")).code == 2


@req("CLI_002")
def test_completion_offers_the_newest_variant() -> None:
    env = {"_A2A_BRIDGE_COMPLETE": "complete_bash", "COMP_WORDS": "a2a-bridge send --te", "COMP_CWORD": "2"}
    script = Path(sys.executable).parent / "a2a-bridge"
    done = subprocess.run([script], env={**os.environ, **env}, capture_output=True, text=True, check=True)
    assert "--text-part" in done.stdout.split()
    assert "--text" not in done.stdout.split()


@req("SKILL_001", "SKILL_002")
async def test_one_skill_that_defers_to_help(tmp_path: Path) -> None:
    done = await command("skill", "install", str(tmp_path))
    assert done.code == 0, done.err
    (skill,) = tmp_path.rglob("SKILL.md")  # noqa: ASYNC240
    assert skill.parent == tmp_path / ".agents" / "skills" / "a2a-bridge"
    text = skill.read_text()
    assert len(text) < 3000
    assert re.match(r"---\nname: a2a-bridge\ndescription: .+\n", text)
    assert "a2a-bridge help" in text
    assert not re.search(r"\b(MUST|SHALL|A2ACLI_[A-Z]+_\d)", text)
    assert (skill.parent / "references" / "examples.md").exists()


@req("SKILL_001")
async def test_a_skill_is_not_written_through_links(tmp_path: Path) -> None:
    mine, project = tmp_path / "mine", tmp_path / "project"
    skill = project / ".agents" / "skills" / "a2a-bridge"
    mine.mkdir()
    skill.mkdir(parents=True)
    (mine / "profile").write_text("mine")
    (skill / "SKILL.md").symlink_to(mine / "profile")
    (skill / "references").symlink_to(mine)
    done = await command("skill", "install", str(project))
    assert done.code == 2
    assert "leads out of" in done.err
    assert [(one.name, one.read_text()) for one in mine.iterdir()] == [("profile", "mine")]
    (skill / "references").unlink()
    done = await command("skill", "install", str(project))
    assert done.code == 0, done.err
    assert not (skill / "SKILL.md").is_symlink()
    assert [(one.name, one.read_text()) for one in mine.iterdir()] == [("profile", "mine")]
