"""The targets that pages and people name are in `make help`, and CI runs what a contributor runs."""

from tests.architecture.repository import ROOT, run

PROMISED = [
    "test-tools",
    "test-quick",
    "demo",
    "test",
    "check",
    "bench",
    "generate",
    "checkgenerate",
    "format",
    "lint",
    "types",
    "layers",
    "docs",
    "release",
    "clean",
    "compat",
    "interpreters",
    "install",
    "lock",
    "matrix",
    "frameworks",
    "sdks",
    "peers",
    "crash",
    "soak",
]


def test_help_names_every_promised_target() -> None:
    listed = {line.split()[0] for line in run("make", "help").stdout.splitlines() if line.strip()}
    assert set(PROMISED) <= listed


def test_ci_runs_make_check_and_then_the_other_interpreters() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    commands = [line for line in script.splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["export CI=true", "make browser", "make check", "make interpreters"]
