"""Python inside of Envoy needs the shared library of Python, which the package `python3` of some systems lacks."""

import pytest

from a2a_bridge.cli.envoy import supervisor


def need_shared_library() -> None:
    """Skips a test that needs it, with the line that the command prints."""
    try:
        supervisor.library()
    except supervisor.NoLibraryError as error:
        pytest.skip(f"--server envoy: {error}; {error.remedy}")
