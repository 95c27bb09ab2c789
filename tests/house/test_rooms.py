"""Each room's docstring is its map: it names every file in it."""

import ast
import re
from pathlib import Path

import pytest

ROOMS = sorted(path.parent for path in (Path(__file__).parents[2] / "src" / "dragoman").glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_map_names_every_file(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert "Knows: " in text
    assert "Does not know: " in text
    named = re.findall(r"[`\s](\w+)`", text.partition("Read ")[2])
    files = {path.stem for path in room.glob("*.py")} - {"__init__"}
    assert files <= set(named), f"not named: {sorted(files - set(named))}"
