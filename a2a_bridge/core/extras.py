"""Optional packages: loads one, or names the extra that installs it, and rejects ours of another version."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import Distribution

DISTRIBUTION = "a2a-transport-bridge"
#: the distribution with the commands for people
TOOLS = f"{DISTRIBUTION}-tools"
#: the distribution with the adapters of frameworks and the fronts
ADAPTERS = f"{DISTRIBUTION}-adapters"


class MissingExtraError(ImportError):
    """A package of an extra is not installed. text: the package. remedy: the command that installs it.
    distribution: the distribution with the extra.
    """

    def __init__(self, package: str, extra: str, distribution: str = DISTRIBUTION) -> None:
        self.text = f"this needs {distribution}[{extra}], the package {package}"
        self.remedy = f'pip install "{distribution}[{extra}]"'
        super().__init__(f"{self.text}: {self.remedy}")


class OtherVersionError(ImportError):
    """One of our distributions is not of the version of this one. text: both versions. remedy: the command
    that installs the right version.
    """

    def __init__(self, distribution: str, version: str, ours: str) -> None:
        self.text = (
            f"{distribution} is version {version}, and {DISTRIBUTION} is {ours}: they work at one version"
        )
        self.remedy = f'pip install "{distribution}=={ours}"'
        super().__init__(f"{self.text}: {self.remedy}")


def missing_tools() -> MissingExtraError:
    """The distribution with the commands for people is not installed."""
    return MissingExtraError(TOOLS, "tools")


def missing_fronts(package: str = ADAPTERS, extra: str = "fronts") -> MissingExtraError:
    """The distribution with the fronts is not installed, or a package that a front needs. extra: of that."""
    return MissingExtraError(package, extra, ADAPTERS)


def check_version(distribution: Distribution | None) -> None:
    """Raises OtherVersionError for the tools or the adapters of another version. They use more of this
    distribution than its stable names. pip installs such a pair, and only prints that it has done so.
    distribution: has an entry point. Distributions of other authors have versions of their own.
    """
    if distribution is None or distribution.name not in (TOOLS, ADAPTERS):
        return
    from importlib.metadata import PackageNotFoundError, version  # loads the parser of email

    try:
        ours = version(DISTRIBUTION)
    except PackageNotFoundError:
        return  # run from its folder, without an installation: no version is known
    if distribution.version != ours:
        raise OtherVersionError(distribution.name, distribution.version, ours)


class UnservedVersionError(TypeError):
    """The objects of an installed package cannot be served, because the package is too old. The text has its
    version and those that are served.
    """


def check_served(package: str, least: str) -> None:
    """Raises UnservedVersionError for an installed package that is older than `least`."""
    from importlib.metadata import PackageNotFoundError, version  # loads the parser of email

    try:
        found = version(package)
    except PackageNotFoundError:
        return  # run from its folder, without an installation: no version is known
    if _release(found) < _release(least):
        raise UnservedVersionError(
            f'{package} {found} is not served, {least} and later are: pip install "{package}>={least}"'
        )


def least_of(extra: str) -> Iterator[tuple[str, str]]:
    """The packages of an extra of the adapters, and the oldest version of each that is served."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        required = requires(ADAPTERS) or ()
    except PackageNotFoundError:
        return
    for one in required:
        package, _, condition = one.partition(";")
        least = _LEAST.fullmatch(package)
        if least is not None and re.sub(r"[\s'\"]", "", condition) == f"extra=={extra}":
            yield least[1], least[2]


#: a requirement with a least version
_LEAST = re.compile(r"([\w.-]+).*>=([\d.]+).*")


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version that count here: `1.10.0rc1` is 1.10."""
    numbers = re.match(r"\d+(\.\d+)?", version)
    return tuple(map(int, numbers[0].split("."))) if numbers is not None else ()


def load(module: str, extra: str) -> Any:
    """A module of a package from an extra. Raises MissingExtraError."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(package, extra) from None
