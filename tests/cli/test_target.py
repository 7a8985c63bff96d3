"""What a command takes as a target: URLs, addresses, cards, and code in files, folders and modules."""

from collections.abc import Callable
from pathlib import Path

import pytest

from a2a_bridge.cli.target import BadTargetError, Target, TargetKind, load, parse
from a2a_bridge_tools.client.reaching import reference

TARGETS = [
    ("https://agent.example", TargetKind.URL, "https://agent.example", ""),
    ("http://localhost:8080/agents/a", TargetKind.URL, "http://localhost:8080/agents/a", ""),
    ("https://x.example/card?assistant_id=7", TargetKind.URL, "https://x.example/card?assistant_id=7", ""),
    ("https://x.example/agent.json", TargetKind.URL, "https://x.example/agent.json", ""),
    (":8080", TargetKind.URL, "http://127.0.0.1:8080", ""),
    (":8080/agents/a?b=c", TargetKind.URL, "http://127.0.0.1:8080/agents/a?b=c", ""),
    ("localhost:50051", TargetKind.GRPC, "localhost:50051", ""),
    ("10.0.0.1:1", TargetKind.GRPC, "10.0.0.1:1", ""),
    ("[::1]:50051", TargetKind.GRPC, "[::1]:50051", ""),
    ("grpc://agent.example:50051", TargetKind.GRPC, "grpc://agent.example:50051", ""),
    ("grpcs://agent.example:443", TargetKind.GRPC, "grpcs://agent.example:443", ""),
    ("card.json", TargetKind.CARD, "card.json", ""),
    ("cards/mine.json", TargetKind.CARD, "cards/mine.json", ""),
    ("weather.py", TargetKind.FILE, "weather.py", ""),
    ("./a/weather.py:agent", TargetKind.FILE, "./a/weather.py", "agent"),
    ("weather.py:app.agent", TargetKind.FILE, "weather.py", "app.agent"),
    ("C:\\agents\\weather.py:agent", TargetKind.FILE, "C:\\agents\\weather.py", "agent"),
    ("package.module:agent", TargetKind.MODULE, "package.module", "agent"),
    ("module:app.agent", TargetKind.MODULE, "module", "app.agent"),
    ("  :8080 ", TargetKind.URL, "http://127.0.0.1:8080", ""),
]


@pytest.mark.parametrize(("text", "sort", "place", "name"), TARGETS, ids=[row[0] for row in TARGETS])
def test_a_target_is_understood(text: str, sort: TargetKind, place: str, name: str) -> None:
    assert parse(text) == Target(sort, place, name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "foo", "localhost", "agent.example", "agent.example/path", "ftp://agent.example"),
        *(
            "http://",
            "https://host:99999",
            ":99999",
            "localhost:99999",
            "grpc://agent.example",
            "weather.py:",
        ),
        *("a b:c d", ":x", "http://[::1"),
    ],
)
def test_an_invalid_target_is_rejected_with_advice(text: str) -> None:
    with pytest.raises(BadTargetError) as caught:
        parse(text)
    assert str(caught.value)


def test_a_file_of_any_name_that_exists_is_a_card(tmp_path: Path) -> None:
    path = tmp_path / "card"
    path.write_text("{}")
    assert parse(str(path)) == Target(TargetKind.CARD, str(path))


def test_only_files_and_modules_are_code() -> None:
    assert [sort for sort in TargetKind if Target(sort, "x").is_code] == [TargetKind.FILE, TargetKind.MODULE]


def test_a_folder_is_a_place_of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse(".") == Target(TargetKind.FILE, ".")
    assert parse("package") == Target(TargetKind.FILE, "package")
    assert parse("package:agent") == Target(TargetKind.MODULE, "package", "agent")


@pytest.mark.parametrize("name", ["agent.py", "app.py", "main.py", "own.py"])
def test_the_file_of_a_folder(name: str, tmp_path: Path) -> None:
    code = 'from a2a_bridge import agent\n\n@agent\nasync def echo(text):\n    "Says it."\n    return text\n'
    (tmp_path / name).write_text(code)
    if name != "own.py":
        (tmp_path / "others.py").write_text("raise RuntimeError")
    assert load(parse(str(tmp_path))).card.name == "echo"


@pytest.mark.parametrize("read", [parse, reference])
def test_a_text_too_long_for_a_path_is_no_file(read: Callable[[str], Target]) -> None:
    with pytest.raises(BadTargetError, match="is no target"):
        read(f"{'x' * 5000} y")
