"""The page of a training in a real browser."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from watched import LITERAL, begun, shown, update, validation

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no browser here; the page is tested where there is one of {', '.join(BROWSERS)}")


def seen(browser: str, address: str, profile: Path, *options: str) -> str:
    """The document as it stands once its scripts have asked and drawn."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=3000", *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def text_of(document: str, name: str) -> str:
    found = re.search(rf'<(\w+)[^>]* id="{name}"[^>]*>(.*?)</\1>', document, flags=re.S)
    assert found, name
    return html.unescape(re.sub(r"<[^>]*>", " ", found[2])).strip()


@pytest.mark.parametrize("width", [360, 1200])
def test_a_training_is_drawn(browser: str, tmp_path: Path, width: int) -> None:
    events = [update(step) for step in range(50, 200, 50)]
    events += [validation(150, 21.5, examples=[LITERAL, "un chien", "j'aime"])]
    events += [{"event": "skipped", "step": 160, "loss": None, "norm": None}]
    with shown(begun(tmp_path / "my-en-fr", events)) as server:
        document = seen(browser, server.address, tmp_path / "profile", f"--window-size={width},800")
    assert text_of(document, "name") == "my-en-fr"
    assert text_of(document, "state") == "stopped"
    assert text_of(document, "update").split() == ["160", "of", "200", "·", "epoch", "2"]
    assert text_of(document, "best").startswith("21.5")
    assert "a <b>dog</b>" in text_of(document, "samples")
    assert LITERAL in text_of(document, "samples"), "shown to the letter"
    assert "<img" not in document
    assert "update skipped" in text_of(document, "warned")
    assert document.count("<circle") >= 3
    assert re.search(r'id="losses".*?<path d="M[\d. ]+L[\d. L]+" class="curve quiet"', document, flags=re.S)
    assert "Update 150: training 0.053 · validation 2.000" in document


def test_a_folder_without_a_journal(browser: str, tmp_path: Path) -> None:
    with shown(begun(tmp_path / "m")) as server:
        document = seen(browser, server.address, tmp_path / "profile")
    assert text_of(document, "state") == "no training yet"
    assert "no journal in this folder yet" in text_of(document, "notice")
