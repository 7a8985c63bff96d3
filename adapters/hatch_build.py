"""Requires the same version of a2a-transport-bridge: the code here uses more of it than its stable names.

The version stands once, in the pyproject.toml of the repository. A source distribution has it in PKG-INFO.
"""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    """Adds the requirement."""

    def update(self, metadata: dict[str, Any]) -> None:
        """`dependencies` of the metadata."""
        metadata.setdefault("dependencies", [f"a2a-transport-bridge=={metadata['version']}"])
