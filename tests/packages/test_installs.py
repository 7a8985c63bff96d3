"""What each installation has: the base for adapters, `server` for the command, and the tools."""

import importlib.metadata
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from a2a_bridge.cli.commands import FRONTS, GROUP, SUMMARIES, TOOLS
from a2a_bridge.cli.running import PLAYGROUND
from a2a_bridge.testing.each import each
from tests.architecture.repository import ROOT, pyproject, run
from tests.packages import environments
from tests.patience import PATIENCE

#: packages of the base install, ours among them
MOST = 25
#: packages of `server`
SERVER = {"alembic", "prometheus_client", "pydantic_settings", "rich", "sqlalchemy", "typer"}

#: an agent on every binding, and a call over each
SMOKE = ROOT / "release" / "smoke.py"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return environments.build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    return environments.make(tmp_path_factory.mktemp("base"), wheels, environments.BRIDGE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    return environments.make(tmp_path_factory.mktemp("server"), wheels, f"{environments.BRIDGE}[server]")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    return environments.make(tmp_path_factory.mktemp("tools"), wheels, f"{environments.BRIDGE}[tools]")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    """The command and the adapters, without a package of an extra of theirs."""
    names = (f"{environments.BRIDGE}[server]", environments.ADAPTERS)
    return environments.make(tmp_path_factory.mktemp("adapters"), wheels, *names)


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    return environments.make(tmp_path_factory.mktemp("fronts"), wheels, f"{environments.ADAPTERS}[fronts]")


@pytest.fixture(scope="module")
def openai_front(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    """One front alone."""
    return environments.make(
        tmp_path_factory.mktemp("openai_front"), wheels, f"{environments.ADAPTERS}[openai]"
    )


def code(programs: Path, text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(programs / "python", "-c", text, cwd=cwd)


def command(programs: Path, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(programs / "a2a-bridge", *words, cwd=cwd)


def importable(programs: Path, names: set[str], cwd: Path) -> set[str]:
    text = f"import importlib.util as u; print(*[n for n in {sorted(names)} if u.find_spec(n)])"
    done = code(programs, text, cwd)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@contextmanager
def running(programs: Path, *words: object, cwd: Path) -> Iterator[dict[str, str]]:
    """A server; gives the members of its ready line."""
    process = subprocess.Popen(
        [str(word) for word in (programs / "a2a-bridge", *words)], cwd=cwd, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("ready "), first
            yield dict(word.split("=", 1) for word in first.split()[1:])
        finally:
            process.terminate()
            process.wait(PATIENCE)


def test_the_base_has_few_packages() -> None:
    assert len(environments.requirements([environments.BRIDGE])) <= MOST


def test_an_adapter_works_in_the_base(base: Path, tmp_path: Path) -> None:
    assert importable(base, SERVER | {"a2a_bridge_tools"}, tmp_path) == set()
    done = run(base / "python", SMOKE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["JSONRPC hello", "HTTP+JSON hello", "GRPC hello"]


@pytest.mark.parametrize(
    "use",
    [
        "from a2a_bridge.ext import open_store; asyncio.run(open_store('sqlite:///x.db').__aenter__())",
        "from a2a_bridge.ext import Metrics; Metrics()",
    ],
    ids=["store", "metrics"],
)
def test_the_base_names_the_extra_of_what_it_lacks(base: Path, tmp_path: Path, use: str) -> None:
    done = code(base, f"import asyncio; {use}", tmp_path)
    assert 'pip install "a2a-transport-bridge[server]"' in done.stderr.splitlines()[-1]


def test_the_command_without_its_extra_names_it(base: Path, tmp_path: Path) -> None:
    done = command(base, "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'try: pip install "a2a-transport-bridge[server]"' in done.stderr


def test_a_server_serves_and_bridges_without_the_tools(server: Path, tmp_path: Path) -> None:
    assert importable(server, SERVER | {"a2a_bridge_tools"}, tmp_path) == SERVER
    agent = ROOT / "examples" / "echo_agent.py"
    any_port = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with (
        running(
            server, "serve", agent, "--store", f"sqlite:///{tmp_path}/t.db", *any_port, cwd=tmp_path
        ) as up,
        running(server, "gateway", up["http"], *any_port, cwd=tmp_path) as front,
    ):
        call = (
            "import asyncio; from a2a_bridge import connect\n"
            "async def f():\n"
            f"  async with connect('{front['http']}') as peer:\n"
            "    print((await peer.send('hello')).message.parts[0].text)\n"
            "asyncio.run(f())"
        )
        done = code(server, call, tmp_path)
    assert done.stdout == "hello\n", done.stderr


def test_a_server_lists_the_commands_of_others_as_absent(server: Path, tmp_path: Path) -> None:
    shown = command(server, "--help", cwd=tmp_path).stdout
    here, _, absent = shown.partition("Commands that are not installed")
    assert 'pip install "a2a-transport-bridge[tools]"' in " ".join(absent.split())
    assert 'pip install "a2a-transport-bridge-adapters[fronts]"' in " ".join(absent.split())
    others = TOOLS | FRONTS
    assert [f"\n  {name} " in here for name in sorted(SUMMARIES)] == [
        name not in others for name in sorted(SUMMARIES)
    ]
    assert [f"\n  {name} " in absent for name in sorted(SUMMARIES)] == [
        name in others for name in sorted(SUMMARIES)
    ]


@pytest.mark.parametrize(
    "words",
    [
        *([name, "--help"] for name in sorted(TOOLS)),
        ["demo-server"],
        ["help", "send"],
        ["serve", str(ROOT / "examples" / "echo_agent.py"), "--ui"],
        ["gateway", "http://127.0.0.1:1", "--ui"],
        ["config", "show"],
    ],
    ids=lambda words: " ".join(Path(word).name for word in words),
)
def test_what_the_tools_have_names_them(server: Path, tmp_path: Path, words: list[str]) -> None:
    done = command(server, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert 'pip install "a2a-transport-bridge[tools]"' in " ".join(done.stderr.replace("│", "").split())


def test_the_tools_add_all_commands(everything: Path, tmp_path: Path) -> None:
    shown = command(everything, "--help", cwd=tmp_path).stdout
    assert shown.count("not installed") == 1  # the fronts
    for name in SUMMARIES:
        assert f"\n  {name} " in shown
    with running(everything, "server", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", cwd=tmp_path) as up:
        done = command(everything, "send", "-a", up["http"], "hello", cwd=tmp_path)
    assert "hello" in done.stdout, done.stderr


def test_the_files_of_the_tools_are_in_their_wheel(everything: Path, tmp_path: Path) -> None:
    done = command(everything, "skill", "install", ".", cwd=tmp_path)
    assert (tmp_path / ".agents" / "skills" / "a2a-bridge" / "SKILL.md").exists(), done.stderr
    any_port = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    with running(everything, "server", *any_port, "--ui", cwd=tmp_path) as up:
        suite = command(everything, "conformance", "-a", up["http"], cwd=tmp_path)
        with urllib.request.urlopen(up["ui"], timeout=PATIENCE) as page:  # noqa: S310
            assert b"<html" in page.read()
    assert suite.returncode == 0, suite.stderr


def test_the_table_of_the_tools_is_that_of_their_entry_points() -> None:
    found = {point.name for point in importlib.metadata.entry_points(group=GROUP)}
    assert {name for name in found if "." not in name} == TOOLS | FRONTS


#: the environment → the package that it lacks
#: environment, front, the package that it lacks, and the extra that has it
LACKING = [
    ("server", "mcp", "a2a-transport-bridge-adapters", "fronts"),
    ("adapters", "mcp", "mcp", "mcp"),
    ("openai_front", "mcp", "mcp", "mcp"),
]


@pytest.mark.parametrize(("name", "front", "package", "extra"), LACKING)
def test_a_front_that_is_absent_is_named(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, front: str, package: str, extra: str
) -> None:
    programs = request.getfixturevalue(name)
    where = ("--stdio",) if front == "mcp" else ("--http", "127.0.0.1:0")
    done = command(programs, "front", front, "http://127.0.0.1:1", *where, cwd=tmp_path)
    shown = " ".join(done.stderr.replace("│", "").split())
    assert done.returncode == 2
    assert f"the package {package}" in shown
    assert f'pip install "a2a-transport-bridge-adapters[{extra}]"' in shown


def test_the_fronts_have_their_packages(fronts: Path, openai_front: Path, tmp_path: Path) -> None:
    agent = ROOT / "examples" / "echo_agent.py"
    any_port = ("--http", "127.0.0.1:0")
    for programs, name in ((fronts, "mcp"), (fronts, "openai"), (openai_front, "openai")):
        with running(programs, "front", name, agent, *any_port, cwd=tmp_path) as up:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{up['http']}/nowhere", timeout=PATIENCE)  # noqa: S310
            assert refused.value.code == 404
            refused.value.close()


def test_all_distributions_have_one_version(wheels: dict[str, Path]) -> None:
    bridge = pyproject()["project"]
    version = bridge["version"]
    for name, requirement in (
        (environments.TOOLS, f"{bridge['name']}[server]=={version}"),
        (environments.ADAPTERS, f"{bridge['name']}=={version}"),
    ):
        (metadata,) = importlib.metadata.distributions(path=[str(wheels[name])])
        assert metadata.version == version
        assert [one for one in metadata.requires or () if "extra ==" not in one] == [requirement]


def test_the_extra_all_has_every_other_extra() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    (everything_,) = extras["all"]
    assert everything_ == f"{environments.BRIDGE}[{','.join(sorted(extras.keys() - {'all'}))}]"


PLUGIN = """
def hello(name: str = "you") -> None:
    '''Says hello.'''
    print("hello", name)
"""


def test_other_distributions_add_commands_and_break_none(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    lines = ("hello = plugin:hello", "serve = plugin:hello", "keys.hello = plugin:hello", "broken = absent:x")
    (metadata / "entry_points.txt").write_text("\n".join((f"[{GROUP}]", *lines)))

    def said(*words: str, **variables: str) -> tuple[int, str, str]:
        done = run(
            sys.executable, "-m", "a2a_bridge", *words, cwd=tmp_path, PYTHONPATH=str(tmp_path), **variables
        )
        return done.returncode, done.stdout, done.stderr

    assert said("hello", "--name", "x") == (0, "hello x\n", "")
    assert said("keys", "hello") == (0, "hello you\n", "")
    assert "over JSON-RPC" in said("serve", "--help")[1]
    shown = said("--help")[1]
    assert [f"  {name} " in shown for name in ("hello", "broken", "send")] == [True] * 3
    code_, _, text = said("broken", "a", "b")
    assert code_ == 1
    assert "the command 'broken' cannot be loaded: ModuleNotFoundError: No module named 'absent'" in text
    assert "the distribution plugin has it" in text
    assert (
        "cannot be loaded: ModuleNotFoundError: No module named 'absent'" in said("broken", "--port", "1")[2]
    )
    assert "No module named 'absent'" in " ".join(said("broken", "--help")[1].split())
    (metadata / "entry_points.txt").write_text(f"[{PLAYGROUND}]\npage = absent:x")
    code_, _, text = said("serve", str(ROOT / "examples" / "echo_agent.py"), "--ui", "--store", "memory://")
    assert code_ == 1
    assert "--ui: the page cannot be loaded: ModuleNotFoundError: No module named 'absent'" in text
    assert "the distribution plugin has it" in text
    assert "Traceback" not in text
    (metadata / "entry_points.txt").write_text("\n".join((f"[{GROUP}]", *lines)))
    # It looks at the variables of all commands.
    assert "no command has this variable" in said("keys", "hello", A2A_BRIDGE_ABSENT="1")[2]


#: the content of a module → the reason why the object `x` in it is no command
BROKEN_COMMANDS = {
    "import sys; sys.exit(7)": "SystemExit: 7",
    "class Own(BaseException): pass\nraise Own('no')": "Own: no",
    "def (": "SyntaxError: invalid syntax",
    "x = 42": "plugin:x is neither a function nor a Typer",
    "def x(a: 'Absent'): pass": "NameError: name 'Absent' is not defined",
}


@each("content, reason", BROKEN_COMMANDS.items())
def test_a_broken_command_breaks_no_other(content: str, reason: str) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "plugin.py").write_text(content)
        add_distribution(place, "plugin", f"[{GROUP}]\nbroken = plugin:x\nconfig.broken = plugin:x")
        for words in (("broken", "--port", "1"), ("config", "broken")):
            done = run(sys.executable, "-m", "a2a_bridge", *words, cwd=place, PYTHONPATH=folder)
            assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
            assert f"cannot be loaded: {reason}" in done.stderr
            assert "the distribution plugin has it" in done.stderr
        words = ("config", "check", "absent.toml")
        other = run(sys.executable, "-m", "a2a_bridge", *words, cwd=place, PYTHONPATH=folder)
        assert "absent.toml: cannot be read" in other.stderr, other.stderr


def test_a_command_of_two_distributions_is_an_error_that_names_both(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    for name in ("one", "two"):
        add_distribution(tmp_path, name, f"[{GROUP}]\nhello = plugin:hello\nskill = plugin:hello")
    listed = run(sys.executable, "-m", "a2a_bridge", "--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert any(f"From {names}." in listed.stdout for names in ("one and two", "two and one"))
    done = run(sys.executable, "-m", "a2a_bridge", "hello", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "it is there more than once" in done.stderr
    assert "the distributions " in done.stderr
    ours = run(sys.executable, "-m", "a2a_bridge", "skill", "--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert "install" in ours.stdout, "that of the tools"


@each(
    "group, words",
    [
        ("a2a_bridge.dialects", ("serve", "echo.py", "--http", "127.0.0.1:0", "--no-grpc")),
        ("a2a_bridge.peers", ("serve", "echo.py", "--http", "127.0.0.1:0", "--no-grpc")),
        ("a2a_bridge.peers", ("peers",)),
    ],
)
def test_a_broken_extension_is_an_error_at_the_start(group: str, words: tuple[str, ...]) -> None:
    for content, reason in (("import sys; sys.exit(7)", "SystemExit: 7"), ("x = 42", "")):
        with TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "plugin.py").write_text(content)
            (place / "echo.py").write_text((ROOT / "examples" / "echo_agent.py").read_text())
            add_distribution(place, "plugin", f"[{group}]\nown = plugin:x")
            done = run(sys.executable, "-m", "a2a_bridge", *words, cwd=place, PYTHONPATH=folder)
            assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
            assert f"'own' cannot be loaded: {reason}" in done.stderr
            assert "the distribution plugin has it" in done.stderr


def add_distribution(folder: Path, name: str, entries: str) -> None:
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entries)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (environments.TOOLS, ("send", "-a", "absent.py", "hi")),
        (environments.TOOLS, ("config", "show")),
        (
            environments.TOOLS,
            ("serve", str(ROOT / "examples" / "echo_agent.py"), "--ui", "--store", "memory://"),
        ),
        (environments.ADAPTERS, ("front", "mcp", "absent.py")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_tools_and_adapters_of_another_version_are_an_error(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    """pip prints that it has installed such a pair, and ends with 0."""
    metadata = tmp_path / f"{name.replace('-', '_')}-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    installed = importlib.metadata.distribution(name).read_text("entry_points.txt")
    assert installed
    (metadata / "entry_points.txt").write_text(installed)
    done = run(sys.executable, "-m", "a2a_bridge", *words, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    said = " ".join(done.stderr.split())
    ours = importlib.metadata.version(environments.BRIDGE)
    assert done.returncode == 2, said
    assert f"{name} is version 9.9, and {environments.BRIDGE} is {ours}" in said
    assert f'pip install "{name}=={ours}"' in said
    assert "Traceback" not in said
