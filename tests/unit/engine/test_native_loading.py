"""From a folder to the CPU engine: quantized or not, never stale, and without torch."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import dragoman
from dragoman import config as configuration
from dragoman.engine import loading, native_loading, processor
from dragoman.engine.library import instruction_set, open_library
from dragoman.engine.loading import BackendName, load, read_tokenizers, sizes_of
from dragoman.engine.native_backend import NativeBackend
from dragoman.engine.native_loading import map_engine, read_precise, read_weights, to_backend
from dragoman.engine.packing import pack
from dragoman.engine.torch_backend import TorchBackend
from dragoman.engine.translator import GROWTH
from dragoman.errors import EngineError, FolderError
from dragoman.evaluate.description import describe
from dragoman.evaluate.speed_process import open_translator
from dragoman.store import bench, tensors
from dragoman.store.bench import Best
from dragoman.store.folder import ModelFolder
from engines import needs_engine, quantized
from folders import write_model

LINES = ["one", "two three", "", "Straße 12, 我喜欢", "  "]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("loading") / "model")


def test_the_file_holds_what_was_packed(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model", model={"positions": "learned", "tied": "output"})
    sizes = quantized(root, ("decoder.1.outer", "output"))
    found = map_engine(ModelFolder(root), sizes, tensors.Mapped(ModelFolder(root).engine))
    weights = read_weights(ModelFolder(root), sizes)
    made = pack(weights, sizes.config.model, sizes.tgt_vocab, ("decoder.1.outer", "output"))
    assert found.keys() == made.keys()
    assert all(np.array_equal(found[name], array) for name, array in made.items())
    assert read_precise(ModelFolder(root), tensors.read_header(root / "engine.safetensors")) == (
        "decoder.1.outer",
        "output",
    )
    assert (sizes.positions, sizes.tgt_vocab) == (GROWTH * 80, 320)


def test_a_stale_file_is_refused(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    sizes = quantized(root)
    write_model(root, seed=2)
    with pytest.raises(
        FolderError, match=r"made from other weights than model.safetensors.*`dragoman quantize .*` again"
    ):
        map_engine(ModelFolder(root), sizes, tensors.Mapped(ModelFolder(root).engine))


def test_a_file_with_larger_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As versions before wrote them: sums would overflow on some processors."""
    root = write_model(tmp_path / "model")
    monkeypatch.setattr(native_loading, "LARGEST", 63)
    sizes = quantized(root)
    monkeypatch.undo()
    with pytest.raises(FolderError, match="made by another version of dragoman: run `dragoman quantize .*` again"):
        map_engine(ModelFolder(root), sizes, tensors.Mapped(ModelFolder(root).engine))


def test_a_file_of_other_sizes_is_refused(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    quantized(root)
    settings = (root / "config.toml").read_text(encoding="utf-8").replace("d_ff = 24", "d_ff = 88")
    (root / "config.toml").write_text(settings, encoding="utf-8")
    config = configuration.load(root / "config.toml")
    sizes = sizes_of(config, *read_tokenizers(ModelFolder(root), config))
    with pytest.raises(FolderError, match=r"engine.safetensors does not fit the configuration"):
        map_engine(ModelFolder(root), sizes, tensors.Mapped(ModelFolder(root).engine))
    with pytest.raises(FolderError, match=r"model.safetensors does not fit the configuration"):
        read_weights(ModelFolder(root), sizes)


@pytest.mark.parametrize("precise", ['["no.such"]', "[1]", "{}", "[", ""])
def test_a_list_of_matrices_that_is_none(tmp_path: Path, precise: str) -> None:
    root = write_model(tmp_path / "model")
    sizes = quantized(root)
    folder = ModelFolder(root)
    metadata = {"weights_sha256": tensors.read_header(folder.weights).sha256, "precise": precise}
    chunks = tensors.encode_arrays(map_engine(folder, sizes, tensors.Mapped(folder.engine)), metadata)
    folder.engine.write_bytes(b"".join(bytes(chunk) for chunk in chunks))
    with pytest.raises(FolderError, match=r"engine.safetensors"):
        map_engine(folder, sizes, tensors.Mapped(folder.engine))


@needs_engine
def test_which_weights_and_which_backend(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    exact = load(root)
    assert isinstance(exact.backend, NativeBackend)
    assert not exact.backend.model.is_int8
    assert exact.translate(LINES) == load(root, "torch").translate(LINES) == load(root, "native", 2).translate(LINES)
    quantized(root)
    quick = load(root, warn=pytest.fail)
    assert isinstance(quick.backend, NativeBackend)
    assert quick.backend.model.is_int8
    assert len(quick.translate(LINES)) == len(LINES)
    assert isinstance(load(root, "torch").backend, TorchBackend)
    write_model(root, seed=2)
    for backend in ("auto", "native"):
        with pytest.raises(FolderError, match="again, or delete it"):
            load(root, backend)  # type: ignore[arg-type]


@needs_engine
@pytest.mark.parametrize("changes", [{"positions": "learned", "max_positions": 60}, {"tied": "output"}])
def test_translations_scores_and_attention_are_the_same(tmp_path: Path, changes: dict[str, object]) -> None:
    root = write_model(tmp_path / "model", model=changes)
    native, theirs = load(root, "native"), load(root, "torch")
    search = structs.replace(native.search, n_best=3, max_length_ratio=1.0)
    for mine, wanted in zip(native.stream(LINES, search), theirs.stream(LINES, search), strict=True):
        assert [one.text for one in mine] == [one.text for one in wanted]
        assert [one.score for one in mine] == pytest.approx([one.score for one in wanted], abs=1e-4)
        for part, other in zip(mine[0].parts, wanted[0].parts, strict=True):
            np.testing.assert_allclose(native.align(part), theirs.align(other), atol=1e-4)
    pairs = [("the cat", "le chat"), ("", ""), ("on", "sur la table")]
    for mine_, wanted_ in zip(native.score(pairs), theirs.score(pairs), strict=True):
        assert mine_.token_log_probs == pytest.approx(wanted_.token_log_probs, abs=1e-4)
    assert "".join(native.stream_tokens("the cat")) == "".join(theirs.stream_tokens("the cat"))


def missing() -> None:
    raise EngineError("there is none")


def test_without_a_library(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "open_library", missing)
    told: list[str] = []
    assert isinstance(load(root, warn=told.append).backend, TorchBackend)
    assert told == ["there is none"]
    assert isinstance(load(root, "torch", warn=pytest.fail).backend, TorchBackend)
    with pytest.raises(EngineError, match="there is none"):
        load(root, "native")
    monkeypatch.setitem(sys.modules, "dragoman.engine.torch_loading", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError):
        load(root, "torch")


def test_who_gives_no_callback_is_warned_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "open_library", missing)
    loading.warn_once.cache_clear()
    with warnings.catch_warnings(record=True, action="default") as warned:
        for category in (ImportWarning, ResourceWarning):
            assert isinstance(dragoman.load(root).backend, TorchBackend)
            warnings.filterwarnings("ignore", category=category)  # makes Python forget what it has shown
        dragoman.load(root, "torch")
    assert [(str(one.message), one.filename) for one in warned] == [("there is none", __file__)]


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"


def run_script(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


WITHOUT_EITHER = (
    WITHOUT_TORCH + "from pathlib import Path\n"
    "from dragoman.engine import library\n"
    "library.library_path = lambda: Path('libdragoman.so')\n"
    "from dragoman.cli.main import run\n"
    "sys.argv[0] = 'dragoman'\n"
    "run()"
)
"""As after `pip install .` without a compiler; pip itself says nothing of that."""


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_without_either_the_first_command_says_all_in_one_line(root: Path, backend: str) -> None:
    command = [sys.executable, "-c", WITHOUT_EITHER, "translate", "--model", str(root), "--backend", backend, "the cat"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "dragoman: no CPU engine: it was not built (libdragoman.so is missing); PyTorch, which would translate without"
        " it, is not installed either; install a C++ compiler and reinstall dragoman (pip install --force-reinstall"
        " --no-deps --no-cache-dir), or pip install 'dragoman[train]'\n"
    )


def test_without_either_nothing_is_said_to_translate(root: Path) -> None:
    told = subprocess.run([sys.executable, "-c", WITHOUT_EITHER, "info", str(root)], capture_output=True, text=True)
    facts = dict(line.split(maxsplit=1) for line in told.stdout.splitlines())
    assert (facts["backend"], facts["precision"]) == ("-", "-")
    assert facts["problem"].startswith("no CPU engine: it was not built")


def test_torch_is_wanted_and_missing(root: Path) -> None:
    """One line, whether there is an engine or not."""
    script = (
        WITHOUT_TORCH + "from dragoman.cli.main import run; sys.stderr = sys.stdout\n"
        "sys.argv = ['dragoman', 'translate', '--model', sys.argv[1], '--backend', 'torch', 'the cat']\n"
        "try: run()\n"
        "except SystemExit as leave: print(leave.code)"
    )
    assert run_script(script, root) == (
        "dragoman: --backend torch needs PyTorch, which is not installed; pip install 'dragoman[train]'\n2\n"
    )


# What `dragoman bench` has found best --------------------------------------------------------------------------------


def remember(root: Path, **changes: Any) -> None:
    here = processor.look()
    best = Best(3, "float32", 128, 5, 100.0, here.name, here.usable, instruction_set())
    bench.write(ModelFolder(root).bench, replace(best, **changes))


@needs_engine
def test_threads_are_those_found_best_here(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    usual = open_library().dragoman_processors()
    others = ({"processor": "another"}, {"processors": 10**6}, {"isa": "another"}, {"isa": ""})
    for changes, threads in (({}, 3), *((other, usual) for other in others)):
        remember(root, **changes)
        for backend in ("auto", "native"):
            made = load(root, backend, warn=pytest.fail).backend  # type: ignore[arg-type]
            assert isinstance(made, NativeBackend)
            assert made.threads == threads
    remember(root)
    made = load(root, threads=2).backend
    assert isinstance(made, NativeBackend)
    assert made.threads == 2
    ModelFolder(root).bench.write_bytes(b"{")
    assert load(root).translate(LINES) == load(root, threads=1).translate(LINES)


@needs_engine
def test_the_precision_is_that_found_best_here(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    remember(root, precision="int8")
    assert not native_backend(root).model.is_int8, "nothing is quantized"
    quantized(root)
    assert not ModelFolder(root).bench.exists(), "it was found without the quantized weights"
    for precision, is_int8 in (("int8", True), ("float32", False)):
        remember(root, precision=precision)
        assert native_backend(root).model.is_int8 == is_int8
        assert native_backend(root, "native").model.is_int8 == is_int8
        assert describe(ModelFolder(root))["precision"] == precision


def native_backend(root: Path, backend: BackendName = "auto") -> NativeBackend:
    made = load(root, backend).backend
    assert isinstance(made, NativeBackend)
    return made


@needs_engine
def test_torch_is_taken_where_it_was_found_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_model(tmp_path / "model")
    remember(root, precision="torch")
    told: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", told.append)
    assert isinstance(load(root).backend, TorchBackend)
    assert describe(ModelFolder(root))["backend"] == "torch"
    assert isinstance(load(root, "torch").backend, TorchBackend)
    assert told == [3, 3]
    assert native_backend(root, "native").threads == 3
    monkeypatch.setattr(loading, "has_torch", lambda: False)
    native_backend(root)
    remember(root, precision="float32")
    load(root, "torch")
    assert told == [3, 3], "what is best for the engine says nothing about PyTorch"


@needs_engine
def test_a_measurement_computes_as_it_is_told(tmp_path: Path) -> None:
    root = write_model(tmp_path / "model")
    quantized(root)
    remember(root, precision="float32")
    for precision in ("int8", "float32"):
        made = open_translator(root, precision, 1).backend
        assert isinstance(made, NativeBackend)
        assert made.model.is_int8 == (precision == "int8")


@needs_engine
def test_the_engine_needs_no_torch(root: Path) -> None:
    script = (
        "import sys; from dragoman.cli.main import run; sys.argv = ['dragoman', *sys.argv[1:]]\n"
        "try: run()\n"
        "finally: sys.stderr.write(str(sorted({'torch', 'jaxtyping', 'matplotlib'} & set(sys.modules))))"
    )
    arguments = [
        "translate",
        "--model",
        str(root),
        "--backend",
        "native",
        "--set",
        "search.max_length_ratio=1",
        "the cat",
    ]
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]"
    assert len(ran.stdout.splitlines()) == 1


@needs_engine
def test_a_model_that_the_engine_refuses(root: Path) -> None:
    folder = ModelFolder(root)
    config = configuration.load(folder.config)
    sizes = sizes_of(config, *read_tokenizers(folder, config))
    arrays = pack(read_weights(folder, sizes), config.model, sizes.tgt_vocab)
    del arrays["decoder.0.out.weights"]
    with pytest.raises(EngineError, match="refuses this model: .*use --backend torch"):
        to_backend(arrays, sizes, 0)
    assert open_library().dragoman_processors() >= 1
