"""Optional packages: loads one, or names the extra that installs it."""

from __future__ import annotations

import importlib
from typing import Any

DISTRIBUTION = "a2a-transport-bridge"
#: the distribution with the adapters of frameworks and the fronts
ADAPTERS = f"{DISTRIBUTION}-adapters"


class MissingExtraError(ImportError):
    """A package of an extra is not installed. text: the package. remedy: the command that installs it.

    distribution: the one with the extra.
    """

    def __init__(self, package: str, extra: str, distribution: str = DISTRIBUTION) -> None:
        self.text = f"this needs {distribution}[{extra}], the package {package}"
        self.remedy = f'pip install "{distribution}[{extra}]"'
        super().__init__(f"{self.text}: {self.remedy}")


def missing_tools() -> MissingExtraError:
    """The distribution with the commands for people is not installed."""
    return MissingExtraError(f"{DISTRIBUTION}-tools", "tools")


def missing_fronts(package: str = ADAPTERS) -> MissingExtraError:
    """The distribution with the fronts, or a package that they need, is not installed."""
    return MissingExtraError(package, "fronts", ADAPTERS)


def load(module: str, extra: str) -> Any:
    """A module of a package from an extra. Raises MissingExtraError."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(package, extra) from None
