"""The site, built once for the tests that need it."""

import shutil
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.docs.site import build


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site of these pages."""
    pytest.importorskip("zensical")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    return build(folder)
