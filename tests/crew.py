"""Several workers that do one thing together; run as a program it imports everything once and forks them.

``python crew.py FOLDER`` does every task below with several numbers of workers and leaves what they found in FOLDER.
"""

import json
import math
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = dict[str, Any]


@dataclass(frozen=True)
class Meeting:
    """Where ``count`` workers meet; keep it as long as they live, as torchrun does."""

    store: Any
    count: int
    machines: int = 1

    @classmethod
    def call(cls, count: int, machines: int = 1) -> "Meeting":
        """A new one; of several machines each has its part of the workers, as far as they know."""
        from torch.distributed import TCPStore

        return cls(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False), count, machines)

    @property
    def places(self) -> list[dict[str, str]]:
        """What torchrun would put into the environment of each worker."""
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.store.port), "WORLD_SIZE": str(self.count)}
        here |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0", "OMP_NUM_THREADS": "1"}
        here |= {"LOCAL_WORLD_SIZE": str(self.count // self.machines)}
        return [{**here, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(self.count)]


def together(
    folder: Path, name: str, count: int, task: Callable[..., Result], *arguments: Any, machines: int = 1
) -> None:
    """Fork ``count`` workers, let each do ``task`` and write what it returns; see `found`."""
    pids, meeting = [], Meeting.call(count, machines)
    for rank, place in enumerate(meeting.places):
        if not (pid := os.fork()):
            os.environ.update(place)
            _be(folder / f"{name}-{rank}.json", task, arguments)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def _be(path: Path, task: Callable[..., Result], arguments: Sequence[Any]) -> None:
    from dragoman.train.workers import joined

    signal.alarm(200)
    try:
        with joined() as workers:
            result = task(workers, *arguments)
    except BaseException as error:
        result = {"error": type(error).__name__, "said": str(error), "trace": traceback.format_exc()}
    path.write_text(json.dumps(result))
    os._exit(0)


def found(folder: Path, name: str) -> list[Result]:
    """What each worker left, in the order of their ranks."""
    paths = sorted(folder.glob(f"{name}-[0-9].json"))
    return [json.loads(path.read_text()) for path in paths]


# Tasks ---------------------------------------------------------------------------------------------------------------

UPDATES = 20


def updates(workers: Any, settings: dict[str, Any], shares: Sequence[int], is_double: bool) -> Result:
    """Some updates, each of six uneven batches of which worker r takes ``shares[r]``; the weights that come out."""
    import torch

    from dragoman.config import merge
    from dragoman.model.build import named_weights
    from dragoman.train.optimizer import build_optimizer
    from dragoman.train.path import choose
    from dragoman.train.placement import place, whole
    from dragoman.train.shortage import Room
    from dragoman.train.state import Training, begin

    torch.set_num_threads(1)
    config = merge([TOY, settings])
    training = begin(config, VOCAB, VOCAB)
    if is_double:
        model, average = training.model.double(), training.average.double()
        training = Training(model, average, build_optimizer(model, config.train), training.counters)
    training = place(training, config, workers)
    path = choose(training, config, lambda _: None, workers)
    first = sum(shares[: workers.rank])
    losses = []
    for step in range(1, UPDATES + 1):
        mine = six_batches(step)[first : first + shares[workers.rank]]
        fitted = path.combine(Room().fit(lambda mine=mine, step=step: path.gradient(mine, step), mine))  # type: ignore[misc]
        path.update(fitted.gradient, 1e-2, step)
        losses.append([fitted.gradient.loss, fitted.gradient.norm, fitted.gradient.tgt_tokens, fitted.batches])
    one = whole(training, config, workers)
    weights = [
        named_weights(model) for model in ((one.model, one.average) if workers.is_first else (training.model,) * 2)
    ]
    flat = [[float(x) for tensor in each.values() for x in _local(tensor)] for each in weights]
    board = type(getattr(path, "board", None)).__name__
    return {"weights": flat[0], "average": flat[1], "losses": losses, "path": type(path).__name__, "board": board}


def _local(tensor: Any) -> list[float]:
    return list(tensor.to_local().flatten().tolist() if hasattr(tensor, "to_local") else tensor.flatten().tolist())


def talk(workers: Any) -> Result:
    """Every way to say something."""
    import torch

    tensor = torch.full((3,), float(workers.rank + 1))
    workers.sum(tensor)
    thing = {"text": "ünï", "number": 0.1, "none": None, "inf": float("-inf")} if workers.is_first else None
    return {
        "sum": tensor.tolist(),
        "gather": workers.gather([workers.rank, 0.5]),
        "share": [workers.share(thing), workers.share(thing, patiently=True)],
    }


def share_memory(workers: Any, workers_file: str) -> Result:
    """What is added up in common memory, and when one of them cannot have it, or finds another file in its place."""
    import mmap

    import torch

    from dragoman.train import blackboard

    size = 3 * blackboard.CHUNK + 5
    board = blackboard.hang(workers, size)
    assert board is not None
    shares = [0.5, 0.0, 0.25]
    board.own.copy_(
        torch.arange(size) * (workers.rank + 1.0) if shares[workers.rank] else torch.full((size,), math.nan)
    )
    workers.gather([])
    board.add_up(shares)
    is_right = all(torch.equal(row, torch.arange(size) * 1.25) for row in board.rows)
    board = None
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    create, see = os.memfd_create, mmap.mmap
    os.memfd_create = _refuse  # type: ignore[assignment]
    without = blackboard.hang(workers, size)
    os.memfd_create = lambda _: os.open(workers_file, os.O_RDWR | os.O_CREAT)
    elsewhere = blackboard.hang(workers, size)
    os.memfd_create = create
    if workers.rank == 1:
        mmap.mmap = _refuse  # type: ignore[assignment, misc]
    without_one = blackboard.hang(workers, size)
    mmap.mmap = see  # type: ignore[misc]
    return {
        "right": is_right,
        "left": [name for name in opened if "memfd" in name],
        "without": [without is None, elsewhere is None, without_one is None],
        "again": blackboard.hang(workers, size) is not None,
    }


def _refuse(*_: Any) -> Any:
    raise OSError("not here")


def one_fails(workers: Any, how: str) -> Result:
    """The last worker ends in some way, and the others wait for it."""
    from dragoman.errors import DataError

    workers.gather([1.0])
    if workers.rank == workers.count - 1:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise DataError("the corpus is gone")
    workers.gather([2.0])
    return {}


def be_poor(workers: Any, prepared: Any, times: Sequence[int], poor: Sequence[int], is_death: bool) -> Result:
    """A whole training; in the workers ``poor`` the ``times``-th update finds no memory, or they are killed there."""
    from dragoman.train import optimizer
    from dragoman.train.loop import Loop
    from dragoman.train.packed import Packed
    from trainings import Silent

    made = 0

    def failing(real: Callable[..., None]) -> Callable[..., None]:
        def update(*given: Any) -> None:
            nonlocal made
            made += 1
            if made in times and workers.rank in poor:
                if is_death:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise MemoryError
            real(*given)

        return update

    Packed.update = failing(Packed.update)  # type: ignore[method-assign]
    optimizer.update = failing(optimizer.update)
    running = Loop(prepared, watcher := Silent(), workers=workers)
    weights = list[list[float]]()
    watcher.progress = lambda _: weights.append(  # type: ignore[method-assign]
        [float(x) for parameter in running.training.model.parameters() for x in _local(parameter)]
    )
    counters = running.run(lambda: 0).counters
    said = [text for text in watcher.messages if "out of memory" in text]
    return {"step": counters.step, "skipped": counters.skipped, "weights": weights, "said": said}


VOCAB = 40
TOY: dict[str, Any] = {
    "model": {
        **{"d_model": 32, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "d_ff": 48},
        "dropout": 0.0,
    },
    "train": {"clip_norm": 0.5, "backend": "torch", "weight_decay": 0.01},
}


def six_batches(step: int) -> list[Any]:
    """Of one to five pairs each, with sides of one to nine pieces."""
    from dragoman.data.batch import collate

    draws = random.Random(step)

    def side() -> list[int]:
        return draws.choices(range(3, VOCAB), k=draws.randint(1, 9))

    return [collate([(side(), side()) for _ in range(draws.randint(1, 5))]) for _ in range(6)]


SHARES = {"one": [6], "two": [3, 3], "uneven": [5, 1], "three": [2, 2, 2], "idle": [3, 0, 3], "only": [0, 0, 6]}
NATIVE = ("one", "two", "idle")
SHARDS = {"two": [3, 3], "three": [2, 2, 2]}


def main(folder: Path) -> None:
    """Everything that `tests/unit/train/test_workers.py` looks at."""
    import torch._dynamo  # noqa: F401

    import dragoman.train.loop  # noqa: F401
    from trainings import fresh

    # Gradients that are zero but for rounding (those of the keys' biases) must not become steps of full size by Adam.
    native = {"train": {**TOY["train"], "backend": "native", "precision": "float32", "adam_epsilon": 1e-3}}
    for name, shares in SHARES.items():
        together(folder, f"plain-{name}", len(shares), updates, {}, shares, True)
        if name in NATIVE:
            together(folder, f"native-{name}", len(shares), updates, native, shares, False)
    for name, shares in SHARDS.items():
        together(folder, f"sharded-{name}", len(shares), updates, {"train": {"sharded": True}}, shares, True)
    muon = {**TOY["train"], "optimizer": "muon"}
    together(folder, "muon-one", 1, updates, {"train": muon}, [6], True)
    together(folder, "muon-two", 2, updates, {"train": muon}, [3, 3], True)
    for name in ("one", "two"):
        shares, kernels = SHARES[name], {"train": {**native["train"], "optimizer": "muon"}}
        together(folder, f"muon-native-{name}", len(shares), updates, kernels, shares, False)
    together(folder, "native-apart", 2, updates, native, SHARES["two"], False, machines=2)
    together(folder, "memory", 3, share_memory, str(folder / "other"))
    together(folder, "muon-sharded", 3, updates, {"train": {**muon, "sharded": True}}, [2, 2, 2], True)
    short = {"train__steps": 6, "train__save_every": 3, "train__optimizer": "muon"}
    kernels, torch_, shards = {"train__backend": "native"}, {"train__backend": "torch"}, {"train__sharded": "true"}
    for name, poor, is_death, settings in (
        ("one", [1], False, kernels),
        ("all", [0, 1], False, kernels),
        ("half", [1], False, torch_),
        ("shard", [1], False, shards),
        ("death", [1], True, shards),
    ):
        prepared = fresh(folder / f"poor-{name}", 24, **short, **settings)
        together(folder, f"poor-{name}", 2, be_poor, prepared, [2, 5], poor, is_death)
    together(folder, "talk", 3, talk)
    for how in ("killed", "error"):
        together(folder, how, 3, one_fails, how)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
