"""Output of programs: which files are read, and how much of everything there may be."""

from pathlib import Path

import pytest

from a2a_bridge.testing.each import each
from tests.hosting.scene import COMPLETED, FAILED, INPUT
from tests.hosting.shell import EVENTS, said, shell, text_of

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("files")]


async def test_only_regular_files_are_output(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    (files / "secret").write_text("secret")
    talk = shell(
        'cd "$A2A_OUT"; ln -s "$1" link; ln "$1" second; mkfifo pipe; mkdir folder; echo yes > file',
        str(files / "secret"),
    )
    task = await talk.send("x")
    assert [(one.name, one.parts[0].raw) for one in task.artifacts] == [("file", b"yes\n")]
    assert caplog.text.count("is left out") == 4
    await talk.close()


async def test_a_folder_for_output_that_is_a_link_is_not_followed(files: Path) -> None:
    (files / "elsewhere").mkdir()
    (files / "elsewhere" / "secret").write_text("secret")
    talk = shell('rmdir "$A2A_OUT"; ln -s "$1" "$A2A_OUT"', str(files / "elsewhere"))
    task = await talk.send("x")
    assert (task.status.state, len(task.artifacts)) == (FAILED, 0)
    assert (files / "elsewhere" / "secret").exists()
    await talk.close()


@each("code", [0, 75])
async def test_a_folder_of_a_run_that_is_a_link_is_not_followed(code: int, files: Path) -> None:
    elsewhere = files / "elsewhere"
    (elsewhere / "out").mkdir(parents=True, exist_ok=True)
    (elsewhere / "out" / "secret").write_text("secret")
    (elsewhere / "out").chmod(0o755)
    (elsewhere / "question").write_text("secret")
    talk = shell(f'run=${{A2A_OUT%/out}}; rm -r "$run"; ln -s "$1" "$run"; exit {code}', str(elsewhere))
    task = await talk.send("x")
    assert (task.status.state, len(task.artifacts)) == (FAILED, 0)
    assert "secret" not in said(task)
    assert (elsewhere / "out" / "secret").exists()
    assert (elsewhere / "out").stat().st_mode & 0o777 == 0o755
    await talk.close()


async def test_a_question_that_has_another_name_is_not_read(files: Path) -> None:
    (files / "secret").write_text("secret")
    talk = shell('ln "$1" "$A2A_QUESTION"; exit 75', str(files / "secret"))
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (INPUT, "")
    await talk.close()


async def test_files_that_a_program_has_locked_are_removed() -> None:
    talk = shell('mkdir -p "$A2A_OUT/a/b"; touch "$A2A_OUT/a/b/c"; chmod 0 "$A2A_OUT/a/b" "$A2A_OUT/a"')
    assert (await talk.send("x")).status.state == COMPLETED
    await talk.close()  # and the fixture looks


@each(
    "script",
    [
        "yes | head -c 100000",
        'head -c 100000 /dev/zero > "$A2A_OUT/large"',
        'for i in 1 2 3; do head -c 500 /dev/zero > "$A2A_OUT/$i"; done',
        "yes",
        EVENTS + "yes | tr -d '\\n'",
    ],
)
async def test_output_has_a_limit(script: str) -> None:
    talk = shell(script, max_output=1200)
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (FAILED, "the output of the agent has more than 1200 bytes")
    assert len(text_of(task)) <= 1200
    await talk.close()


@each(
    ("script", "limit"),
    [
        (EVENTS + "yes '{\"data\": 1}'", "1000 artifacts"),
        (EVENTS + 'yes \'{"text": "", "last": true}\'', "1000 artifacts"),
        (EVENTS + 'echo x > "$A2A_OUT/a"; yes \'{"file": "a"}\'', "1000 artifacts"),
        (EVENTS + 'yes \'{"text": ""}\'', "50000 events"),
        (EVENTS + 'yes \'{"message": ""}\'', "50000 events"),
        ('cd "$A2A_OUT"; seq 1001 | xargs touch', "1000 files"),
    ],
)
async def test_output_of_few_bytes_has_a_limit(script: str, limit: str) -> None:
    talk = shell(script)
    task = await talk.send("x")
    assert (task.status.state, said(task)) == (FAILED, f"the output of the agent has more than {limit}")
    assert len(task.artifacts) <= 1000
    await talk.close()
