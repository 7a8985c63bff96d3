"""Calls that have to fail. No tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from a2a_bridge.core.errors import A2AError, Reason


@contextmanager
def rejected(reason: Reason, *fields: str) -> Iterator[pytest.ExceptionInfo[A2AError]]:
    """A context in which a call must fail for this reason, and with violations of these fields if any is named."""
    with pytest.raises(A2AError) as caught:
        yield caught
    assert caught.value.reason is reason
    if fields:
        assert [one.field for one in caught.value.violations] == list(fields)
