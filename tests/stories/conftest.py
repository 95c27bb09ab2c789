"""A corpus and a translator that several stories share: strings of digits, translated by saying them backwards."""

import fcntl
import os
import random
import subprocess
from pathlib import Path

import pytest

from command import PYTHON_M, write_lines
from trainings import Digits

LONGEST = 5
"""Digits; also the longest source the translator takes in one go."""

RECIPE = f"""
[text]
vocab_size = 272
src_lang = "digits"
tgt_lang = "stigid"
[model]
d_model = 32
num_heads = 4
num_encoder_layers = 1
num_decoder_layers = 1
d_ff = 64
dropout = 0.0
norm_first = true
[data]
batch_tokens = 384
max_length = {LONGEST}
[train]
steps = 450
schedule = "cosine"
learning_rate = 1e-2
warmup_steps = 40
label_smoothing = 0.0
ema_decay = 0.9
save_every = 225
validate_every = 225
validate_limit = 40
threads = 1
"""


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    """Made once, also when several workers share the tests."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    made = Digits(shared / "digits", shared / "digits" / "model")
    with open(shared / "digits.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made.folder / "log").exists():
            _make(made)
    return made


def write_corpus(folder: Path) -> None:
    """Distinct strings; none of a part is in another part."""
    draws = random.Random(1)
    texts = list(dict.fromkeys(" ".join(draws.choices("0123456789", k=draws.randint(1, LONGEST))) for _ in range(4000)))
    parts = {"test": texts[-200:], "valid": texts[-240:-200], "train": texts[:-240]}
    for name, lines in parts.items():
        write_lines(folder / f"{name}.src", lines)
        write_lines(folder / f"{name}.tgt", [line[::-1] for line in lines])


def _make(digits: Digits) -> None:
    digits.folder.mkdir(exist_ok=True)
    write_corpus(digits.folder)
    recipe = digits.folder / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    train, valid = digits.pair("train"), digits.pair("valid")
    command = [*PYTHON_M, "train", *train, "--valid", *valid, "--out", digits.model, "--config", recipe]
    ran = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == b""
    (digits.folder / "log").write_bytes(ran.stderr)
