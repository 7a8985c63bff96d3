"""The package, with the module `utils.console_formatter`."""

import sys
from contextvars import ContextVar
from types import ModuleType

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)

for name, members in (
    ("utils", {}),
    ("utils.console_formatter", {"set_suppress_console_output": QUIET.set}),
):
    module = ModuleType(f"{__name__}.{name}")
    vars(module).update(members, __path__=[])
    sys.modules[module.__name__] = module
