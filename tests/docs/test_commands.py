"""The command lines of README.md, tutorials and client commands have the documented output."""

import re
import shlex
import shutil
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from a2a_bridge import interface, serve
from tests.cli.commands import ANY_PORT, FILES, Running, command, serving
from tests.docs.pages import DOCS, ROOT, blocks, name
from tests.docs.test_code_blocks import weather_file
from tests.patience import PATIENCE

READY = re.compile(r"ready http=http://127\.0\.0\.1:\d+ grpc=127\.0\.0\.1:\d+")


def shape(text: str) -> str:
    """Output without the parts that differ from run to run: durations, and the blanks that fill columns."""
    return re.sub(r"\s+", " ", re.sub(r"\d+ ms", "N ms", text)).strip()


@pytest.mark.parametrize(
    ("page", "version", "wanted"),
    [
        (ROOT / "README.md", "1.0", {"serve", "gateway", "send", "compare"}),
        (DOCS / "index.md", "1.0", {"serve"}),
        (DOCS / "reference/client-commands.md", "1.0", {"serve", "send", "compare"}),
        (DOCS / "tutorials/serve.md", "1.0", {"serve", "send", "compare", "task"}),
        (DOCS / "tutorials/bridge.md", "0.3", {"card", "gateway", "send", "compare"}),
    ],
    ids=["readme", "first page", "client commands", "serve", "bridge"],
)
async def test_the_commands_of_a_page(
    page: Path, version: str, wanted: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weather = weather_file(tmp_path)
    ran = []
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(serve(weather, [interface("JSONRPC", version=version)]))
        running: Running | None = None
        for block in blocks(page, "console"):
            for entry in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                line, _, output = entry.partition("\n")
                words = shlex.split(
                    line.replace("http://localhost:9999", f"http://{theirs.http}"), comments=True
                )
                if words[0] != "a2a-bridge":
                    continue
                ran.append(words[1])
                if words[1] in ("serve", "gateway"):
                    running = await stack.enter_async_context(serving(*words[1:], *ANY_PORT, env=FILES))
                    assert READY.fullmatch(running.ready)
                    assert READY.fullmatch(output.strip()), f"{name(page)}: {line}"
                    continue
                if running is not None:
                    port = running.http.rpartition(":")[2]
                    words = [
                        re.sub(r"^:8080", f":{port}", re.sub(r"localhost:50051$", running.grpc, word))
                        for word in words
                    ]
                done = await command(*words[1:])
                assert done.code == 0, f"{name(page)}: {line}\n{done.err}"
                assert done.out
                if output.strip():
                    assert shape(done.out) == shape(output)
    assert wanted <= set(ran)


def internet(running: Running | None, line: str) -> list[str]:
    """The words of a line of the tutorial, with the real addresses, and free ports for listeners."""
    if running is not None:
        line = line.replace("https://localhost:8080", running.http.replace("127.0.0.1", "localhost"))
        line = line.replace("localhost:50051", running.grpc.replace("127.0.0.1", "localhost"))
        line = line.replace("http://127.0.0.1:9464", running.addresses.get("admin", ""))
    return shlex.split(line.replace("--admin 127.0.0.1:9464", "--admin 127.0.0.1:0"))


async def test_the_tutorial_about_the_internet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weather_file(tmp_path)
    page = DOCS / "tutorials/internet.md"
    (certificate, rejected) = (one.body.removeprefix("$ ") for one in blocks(page, "text"))
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    subprocess.run(certificate, shell=True, check=True, capture_output=True, timeout=PATIENCE)  # noqa: ASYNC221, S602
    ran = []
    async with AsyncExitStack() as stack, httpx.AsyncClient(timeout=PATIENCE) as http:
        running: Running | None = None
        for block in blocks(page, "console"):
            for line in re.findall(r"^\$ (.*)$", block.body, re.MULTILINE):
                program, verb, *words = internet(running, line)
                ran.append(verb)
                if verb == "serve":
                    running = await stack.enter_async_context(serving(verb, *words, *ANY_PORT))
                    assert (await command(*internet(running, rejected)[1:])).code == 4
                elif program == "curl":
                    assert (await http.get(words[0])).status_code == 200
                else:
                    done = await command(verb, *words)
                    assert done.code == 0, f"{line}\n{done.err}"
                    if words[0] == "create":
                        (tmp_path / "ci.key").write_text(done.out)
    assert ran == ["keys", "serve", "send", "send", "-s", "-s", "keys"]
