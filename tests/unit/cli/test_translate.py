"""`dragoman translate` where the CPU engine will not serve."""

import os
from pathlib import Path

from command import spawn
from folders import write_model


def test_pytorch_in_the_engines_place_is_told_in_one_line(tmp_path: Path) -> None:
    root, surroundings = write_model(tmp_path / "model"), {**os.environ, "DRAGOMAN_ISA": "z80"}
    with spawn("translate", "--model", root, "one", "two three", env=surroundings) as process:
        out, err = process.communicate()
    assert process.returncode == 0
    assert out.count(b"\n") == 2
    assert err.count(b"\n") == 1
    assert err.startswith(b"dragoman: no CPU engine: ")
    assert b"PyTorch translates, several times slower" in err
