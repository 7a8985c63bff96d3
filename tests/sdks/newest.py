"""Whether the pinned SDKs are the newest of their registries: `make sdks ARGS=--newest`.

A newer version counts if it is final, and either of the line of a pin (`0.3`, `2`) or newer than all of its
package.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable

from tests.sdks.programs import HERE, SDKS, Sdk

#: seconds for one registry
_LIMIT = 120.0
_FINAL = re.compile(r"v?(\d+(?:\.\d+)+)(?:\.Final)?")

Version = tuple[int, ...]


def version_of(text: str) -> Version | None:
    """A final version as numbers; None for others."""
    found = _FINAL.fullmatch(text)
    return tuple(map(int, found[1].split("."))) if found else None


def line_of(version: Version) -> Version:
    """What the versions of one line have in common: major, and with 0 also minor."""
    return version[:2] if version[0] == 0 else version[:1]


def newer(pinned: Iterable[Version], offered: Iterable[Version]) -> list[Version]:
    """What is newer on each line, or than all pins. Raises LookupError if nothing offered is as new."""
    pins, versions = sorted(pinned), sorted(offered)
    if versions and versions[-1] < pins[-1]:
        raise LookupError("the registry does not list the pinned version")
    by_line = {line_of(one): one for one in pins}
    newest = {line_of(one): one for one in versions}
    return [one for line, one in newest.items() if one > by_line.get(line, pins[-1])]


def _of_go(text: str) -> list[str]:
    return text.split()[1:]


def _of_npm(text: str) -> list[str]:
    found = json.loads(text)
    return [found] if isinstance(found, str) else list(found)


def _of_cargo(text: str) -> list[str]:
    return re.findall(r"^version: (\S+)", text, re.MULTILINE)


def _of_maven(text: str) -> list[str]:
    return re.findall(r"a2a-java-sdk-client [^>]*-> (\S+)", text)


_UPDATES = "org.codehaus.mojo:versions-maven-plugin:2.18.0:display-dependency-updates"
_FINAL_ONLY = "-Dmaven.version.ignore=.*(Alpha|Beta|CR).*"
#: toolchain -> (command; {package}, output -> versions)
_ASK: dict[str, tuple[tuple[str, ...], Callable[[str], list[str]]]] = {
    "go": (("go", "list", "-m", "-versions", "{package}"), _of_go),
    "npm": (("npm", "view", "{package}", "versions", "--json"), _of_npm),
    "cargo": (("cargo", "info", "--color", "never", "{package}"), _of_cargo),
    "mvn": (
        (
            "mvn",
            "--batch-mode",
            "-Dstyle.color=never",
            "-f",
            str(HERE / "java" / "pom.xml"),
            _UPDATES,
            _FINAL_ONLY,
        ),
        _of_maven,
    ),
}


def ask(toolchain: str, package: str) -> list[Version]:
    """The final versions that a registry has. Raises LookupError with the reason if it does not tell."""
    if shutil.which(toolchain) is None:
        raise LookupError(f"{toolchain} is not on this machine")
    command, read = _ASK[toolchain]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [part.format(package=package) for part in command],
            cwd=folder,  # nothing of this project may choose a version
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    if done.returncode != 0:
        raise LookupError((done.stderr or done.stdout).strip()[-200:])
    return [one for text in read(done.stdout) if (one := version_of(text)) is not None]


def report(sdks: Iterable[Sdk] = SDKS, asking: Callable[[str, str], list[Version]] = ask) -> list[str]:
    """A line for each package, printed as it is known. Returns the lines about newer versions."""
    packages: dict[tuple[str, str], list[Version]] = {}
    for sdk in sdks:
        pinned = version_of(sdk.name.rpartition(" ")[2])
        assert pinned is not None, sdk.name
        packages.setdefault((sdk.toolchain, sdk.package), []).append(pinned)
    found = []
    for (toolchain, package), pinned in packages.items():
        words = ", ".join(".".join(map(str, one)) for one in pinned)
        try:
            later = newer(pinned, asking(toolchain, package))
        except (LookupError, subprocess.TimeoutExpired) as error:
            print(f"? {package} {words}: not known: {error}", flush=True)
            continue
        if later:
            found.append(f"{package}: {', '.join('.'.join(map(str, one)) for one in later)}")
            print(f"✗ {package} {words}: there is {found[-1].rpartition(': ')[2]}", flush=True)
        else:
            print(f"● {package} {words}", flush=True)
    return found
