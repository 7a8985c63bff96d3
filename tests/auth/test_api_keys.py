"""Files of API keys: created, revoked, read again, and never repeated in a text."""

import json
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from a2a_bridge.auth import ApiKeys, KeyFile, KeyRecord
from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented, UnauthenticatedError

NOW = 1_800_000_000.0


class Clock:
    """Both clocks of ApiKeys; moved by the test."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", now=lambda: NOW)


async def identified(keys: ApiKeys, text: str, header: str = "x-api-key") -> Principal | None:
    return await keys.identify(Presented({header: text}))


async def rejection(keys: ApiKeys, text: str) -> str:
    with pytest.raises(UnauthenticatedError) as failed:
        await identified(keys, text)
    return failed.value.message


async def test_a_key_identifies_its_principal(file: KeyFile) -> None:
    key = file.create("ci", principal="build", scopes=["read", "send", "read"])
    principal = await identified(ApiKeys(file), key.text)
    assert principal is not None
    assert (principal.name, principal.scopes) == ("build", {"read", "send"})
    assert await ApiKeys(file).identify(Presented({})) is None


async def test_another_header(file: KeyFile) -> None:
    keys = ApiKeys(file, header="X-Team-Key")
    text = file.create("a").text if file.path.exists() else ""
    assert keys.scheme().api_key_security_scheme.name == "X-Team-Key"
    assert await identified(keys, text) is None


@pytest.fixture(autouse=True)
def _exists(file: KeyFile) -> None:
    file.create("first")


async def test_the_file_has_no_key_and_is_private(file: KeyFile) -> None:
    key = file.create("ci")
    secret = key.text.partition(".")[2]
    assert len(secret) >= 43  # 256 bits in base64
    assert secret not in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.create("other").record.salt != key.record.salt


@pytest.mark.parametrize(
    "wrong", ["", ".", "ci", "ci.", "ci.x", "x.y", "CI.{}", "ci.{}x", " ci.{}", "ci.\udcff", "é.é"]
)
async def test_any_other_key_is_rejected_with_one_text(file: KeyFile, wrong: str) -> None:
    secret = file.create("ci").text.partition(".")[2]
    assert await rejection(ApiKeys(file), wrong.format(secret)) == "The API key is not valid"


async def test_expired_and_revoked_keys(file: KeyFile) -> None:
    clock = Clock()
    short = file.create("short", expires=NOW + 60)
    other = file.create("other")
    keys = ApiKeys(file, now=clock, clock=clock)
    assert await identified(keys, short.text) is not None
    clock.now += 61
    assert await rejection(keys, short.text) == "The API key is not valid"
    assert await identified(keys, other.text) is not None
    assert file.revoke("other").revoked == file.revoke("other").revoked != ""
    clock.now += 2
    assert await rejection(keys, other.text) == "The API key is not valid"
    with pytest.raises(LookupError, match="no key 'nobody'"):
        file.revoke("nobody")


class Overtaken(KeyFile):
    """A key is revoked right after the file has been read for the first time."""

    def read(self) -> dict[str, KeyRecord]:
        found = super().read()
        if not found["first"].revoked:
            KeyFile(self.path).revoke("first")
        return found


async def test_a_change_while_the_file_is_read_for_the_first_time_counts(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "overtaken.json"
    text = KeyFile(path).create("first").text
    keys = ApiKeys(Overtaken(path), clock=clock)
    clock.now += 2
    assert await rejection(keys, text) == "The API key is not valid"


async def test_the_file_is_read_again_and_the_last_good_one_counts(
    file: KeyFile, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    keys = ApiKeys(file, clock=clock)
    key = file.create("new")
    with pytest.raises(UnauthenticatedError):
        await identified(keys, key.text)  # within a second of the last look
    clock.now += 2
    assert await identified(keys, key.text) is not None
    good = file.path.read_bytes()
    file.path.write_text('{"format": 1, "keys": 7}')
    with caplog.at_level(logging.ERROR, "a2a_bridge.auth"):
        for _ in range(3):
            clock.now += 2
            assert await identified(keys, key.text) is not None
    assert [record.message.count("last good") for record in caplog.records] == [1]
    # It comes back as it was, and is lost once more.
    file.path.write_bytes(good)
    clock.now += 2
    away = file.path.with_name("away")
    for _ in range(2):
        assert await identified(keys, key.text) is not None
        file.path.rename(away)
        with caplog.at_level(logging.ERROR, "a2a_bridge.auth"):
            clock.now += 2
            assert await identified(keys, key.text) is not None
        away.rename(file.path)
        clock.now += 2
    assert len(caplog.records) == 3
    file.path.write_bytes(good)
    file.revoke("new")
    clock.now += 2
    with pytest.raises(UnauthenticatedError):
        await identified(keys, key.text)


def test_processes_that_write_at_the_same_time_lose_nothing(file: KeyFile) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: KeyFile(file.path).create(f"k{number}"), range(24)))
    assert len(file.read()) == 25
    assert sorted(one.name for one in file.path.parent.iterdir()) == ["keys.json", "keys.json.lock"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no", "it is not JSON"),
        (b"[]", "of format 1"),
        (b'{"format": 2, "keys": []}', "of format 1"),
        (b'{"format": 1}', "keys: expected an array"),
        (b'{"format": 1, "keys": [1]}', r"keys\[0\]: expected an object"),
        (b'{"format": 1, "keys": [{"id": "a", "hsah": ""}]}', r"keys\[0\].hsah: is not known"),
        (b'{"format": 1, "keys": [{"id": "a", "salt": "x"}]}', r"keys\[0\].salt: expected 32 hex"),
        (b'{"format": 1, "keys": [{"id": 7}]}', r"keys\[0\].id: expected a string"),
    ],
)
def test_invalid_files_say_where(file: KeyFile, content: bytes, problem: str) -> None:
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        file.read()


def test_an_id_twice_and_bad_times(file: KeyFile) -> None:
    row = json.loads(file.path.read_bytes())["keys"][0]
    file.path.write_text(json.dumps({"format": 1, "keys": [row, row]}))
    with pytest.raises(ValueError, match="an id occurs twice"):
        file.read()
    file.path.write_text(json.dumps({"format": 1, "keys": [row | {"expires": "soon"}]}))
    with pytest.raises(ValueError, match=r"keys\[0\].expires: expected a time"):
        file.read()


@pytest.mark.parametrize("bad", ["", "a.b", "-a", "a b", "a" * 65, "é"])
def test_invalid_ids(file: KeyFile, bad: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        file.create(bad)


def test_an_id_is_taken_once(file: KeyFile) -> None:
    with pytest.raises(ValueError, match="has a key 'first' already"):
        file.create("first")
    with pytest.raises(ValueError, match="is no scope"):
        file.create("second", scopes=["a b"])
