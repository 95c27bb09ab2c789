"""The rules of the house, checked by machine: what is imported when, what is forbidden, what the documents promise."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from dragoman import config
from dragoman.cli.main import app

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
COMMANDS = ("check", "train", "watch", "translate", "score", "evaluate", "average", "quantize", "info", "bench", "demo")
HEAVY = ("torch", "numpy", "tokenizers", "sacrebleu", "matplotlib", "polib", "pydantic", "msgspec")
OPTIONS = {
    "check": {"--valid", "--test", "--config", "-c", "--set", "-s", "--estimate", "--no-estimate", "--json"},
    "train": {
        *("--out", "-o", "--valid", "--config", "-c", "--set", "-s", "--licence", "--accept-changed-data"),
        *("--budget", "--epochs", "--steps", "--explain", "--from"),
    },
    "watch": {"--port"},
    "translate": {
        *("--model", "-m", "--file", "-f", "--n-best", "--beam", "--prefix", "--backend"),
        *("--config", "-c", "--set", "-s", "--json"),
    },
    "score": {"--model", "-m", "--set", "-s", "--tokens", "--backend", "--json"},
    "evaluate": {
        *("--model", "-m", "--compare", "--lowercase", "--output", "-o", "--backend"),
        *("--config", "-c", "--set", "-s", "--json"),
    },
    "average": {"--out", "-o"},
    "quantize": {"--limit", "--force", "--json"},
    "info": {"--json"},
    "bench": {
        *("--file", "-f", "--threads", "--batch", "--beam", "--precision"),
        *("--quick", "--explain", "--store", "--no-store", "--json"),
    },
    "demo": {"--out", "-o"},
}
"""Changing the command line must be meant: it changes this table."""


def commands() -> dict[str, set[str]]:
    group = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        options = [param for param in command.params if getattr(param, "param_type_name", "") == "option"]
        found[name] = {flag for option in options for flag in (*option.opts, *option.secondary_opts)} - {"--help"}
    return found


def test_the_options_are_those_we_meant() -> None:
    assert commands() == OPTIONS


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_waits_for_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; sys.argv = ['dragoman', *sys.argv[1:]]\n"
        "from dragoman.cli.main import run\n"
        "try: run()\n"
        f"except SystemExit: print('HEAVY', sorted(set(sys.modules) & set({HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("HEAVY []")
    assert not done.stderr


def test_importing_dragoman_imports_nothing_heavy() -> None:
    script = f"import sys, dragoman; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WITHOUT_TORCH = """
import sys
for name in ("torch", "tokenizers", "jaxtyping", "matplotlib"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
sys.argv[0] = "dragoman"
"""
BASE_MODULES = (
    *("engine.loading", "engine.native_backend", "engine.translator", "evaluate.metrics", "evaluate.bootstrap"),
    *("data.corpus", "data.report", "store.folder", "store.average", "train.presets", "serve.server"),
)
"""What the base install, which has no torch, imports to translate, score, evaluate, check, quantize and watch."""


def without_torch(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH + script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_without_torch(name: str) -> None:
    done = without_torch("from dragoman.cli.main import run; run()", name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: dragoman" in done.stdout


@pytest.mark.parametrize("name", BASE_MODULES)
def test_the_base_install_imports(name: str) -> None:
    done = without_torch(f"import dragoman.{name}")
    assert done.returncode == 0, done.stderr


def test_check_without_torch(tmp_path: Path) -> None:
    files = [tmp_path / "train.en", tmp_path / "train.de"]
    for path in files:
        path.write_text("".join(f"{path.suffix[1:]} {number}\n" for number in range(100)), encoding="utf-8")
    done = without_torch("from dragoman.cli.main import run; run()", "check", *map(str, files))
    assert "Traceback" not in done.stderr
    assert "no estimate of the time: it needs torch" in done.stderr


def test_training_without_torch_says_what_to_install(tmp_path: Path) -> None:
    arguments = ["train", "a.en", "a.de", "--out", str(tmp_path / "model")]
    done = without_torch("from dragoman.cli.main import run; run()", *arguments)
    assert done.returncode == 2
    assert done.stderr == "dragoman: this needs torch, which is not installed; pip install 'dragoman[train]'\n"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_nothing_forbidden(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "every file says what it is"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            roots = {name.split(".")[0] for name in names}
            assert not roots & {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}, path
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "torch.load", "yaml.load", "numpy.load", "np.load"}, path
            assert called != "print" or path.name == "main.py", f"{path}: print"
        assert not isinstance(node, ast.Assert), f"{path}: assert does not validate"
        if isinstance(node, ast.arguments):
            assert node.kwarg is None, f"{path}: **{node.kwarg and node.kwarg.arg}"


def test_no_room_called_utils() -> None:
    names = {path.stem for path in SOURCES} | {path.parent.name for path in SOURCES}
    assert not names & {"utils", "util", "helpers", "common", "misc", "manager"}


def test_every_setting_says_what_it_is() -> None:
    for name in config.Config.__struct_fields__:
        section = type(getattr(config.DEFAULTS, name))
        source = ast.parse((ROOT / "src/dragoman/config.py").read_text(encoding="utf-8"))
        body = next(
            node.body for node in source.body if isinstance(node, ast.ClassDef) and node.name == section.__name__
        )
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign):
                said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert said, f"{name}.{ast.unparse(node.target)} has no description"


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.name)
def test_every_recipe_loads_and_says_what_to_expect(path: Path) -> None:
    config.merge([config.read_toml(path)])
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/shapes.md", "CONTRIBUTING.md"])
def test_documents_name_only_what_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:docs|tests|recipes|benchmarks|src)/[\w./-]*)`", text):
        assert (ROOT / path).exists(), f"{name} names {path}"
    known = commands()
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.S):
        for line in block.splitlines():
            if line.startswith("dragoman "):
                words = line.split()
                assert words[1] in known, line
                assert {word for word in words if word.startswith("-")} <= known[words[1]], line
