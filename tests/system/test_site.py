"""The documentation site: built without network, and it asks nobody for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ganglion import sdk

pytest.importorskip("material", reason="the extra `site` of ganglion-web is not installed")
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built with every warning as an error."""
    out = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(out)]
    done = subprocess.run(
        [*argv, "--config-file", str(ROOT / "plugins/site/mkdocs.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_no_page_asks_another_place(site: Path) -> None:
    """No page loads a script, a style, a font or a picture from elsewhere."""
    loads = re.compile(r"""(?:<(?:script|img|iframe|source)[^>]+src|<link[^>]+href)=["']?(?:https?:)?//""")
    styles = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")

    pages = list(site.rglob("*.html"))
    assert len(pages) > 12
    assert [] == [str(path) for path in pages if loads.search(path.read_text())]
    assert [] == [str(path) for path in site.rglob("*.css") if styles.search(path.read_text())]


def test_reference_names_everything(site: Path) -> None:
    """Each command, each name of the contract and each key of a document stands in the reference."""
    contract = (site / "reference" / "sdk.html").read_text()
    commands = (site / "reference" / "commands.html").read_text()

    assert [] == [
        name for name in sdk.__all__ if callable(getattr(sdk, name)) and f'id="{name.lower()}"' not in contract
    ]
    assert [] == [name for name in ("run", "sweep", "serve", "resume") if f'id="{name}"' not in commands]
    assert "phase_config" in (site / "reference" / "documents.html").read_text()
