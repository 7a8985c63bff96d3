from contextvars import ContextVar
from typing import Any

PROVIDER: ContextVar[Any] = ContextVar("human_input_provider")
set_provider = PROVIDER.set
