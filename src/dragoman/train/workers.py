"""The processes that train together: which of them this one is, and how they add up, agree and wait for each other."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from dragoman.errors import ConfigError, DragomanError, TrainingError

PATIENCE = timedelta(seconds=45)
"""How long a worker may be later than the others in the middle of an update; one that hangs is given up then."""

LONG = timedelta(days=7)
"""The same where all wait for the first one, which prepares, validates or saves; one that dies is noticed at once."""

START = timedelta(minutes=10)
"""For all of them to be started."""

TOLD = "told"
"""Under this key of the store they count who has something to say about the end."""


@dataclass(frozen=True)
class Workers:
    """This process among those that train together; without arguments it is alone and nothing is ever sent."""

    rank: int = 0
    "Which one this is, from 0."
    count: int = 1
    local_rank: int = 0
    "Which one of those on this machine."
    store: Store | None = None
    "Where they leave notes for each other."
    patient: distributed.ProcessGroup | None = None
    "All of them, with the patience of :data:`LONG`."
    are_together: bool = False
    "Whether they are several, and all of them on this machine."

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes and talks."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> None:
        """Put the sum over all workers into ``tensor``; every worker gets the same bits.

        Raises:
            TrainingError: a worker is gone or hangs; so do the other methods.
        """
        if self.count > 1:
            with self.explained():
                distributed.all_reduce(tensor)

    def gather(self, numbers: Sequence[float], patiently: bool = False) -> list[list[float]]:
        """The ``numbers`` of every worker, in the order of their ranks.

        None returns before all have given theirs.

        Args:
            patiently: some may come from long work.
        """
        if self.count == 1:
            return [list(numbers)]
        own = torch.tensor([*numbers, 0.0], dtype=torch.float64)  # something, so that they wait for each other
        every = [torch.empty_like(own) for _ in range(self.count)]
        with self.explained():
            distributed.all_gather(every, own, self.patient if patiently else None)
        return [each.tolist()[:-1] for each in every]

    def share(self, value: Any, patiently: bool = False) -> Any:
        """The ``value`` of the first worker, which must be JSON; that of the others is not looked at.

        Args:
            patiently: the first one comes from long work.
        """
        if self.count == 1:
            return value
        data = bytearray(json.dumps(value if self.is_first else None).encode())
        length = torch.tensor(len(data))
        group = self.patient if patiently else None
        with self.explained():
            distributed.broadcast(length, 0, group)
            sent = torch.frombuffer(data, dtype=torch.uint8) if self.is_first else torch.empty(int(length)).byte()
            distributed.broadcast(sent, 0, group)
        return json.loads(sent.numpy().tobytes())

    def agree(self, number: int, complaint: str) -> None:
        """See that a number which says how a worker begins is the same in all of them.

        Args:
            complaint: what is said of those where it is another.
        """
        first, *others = (row[0] for row in self.gather([number], patiently=True))
        if different := [str(rank) for rank, each in enumerate(others, 1) if each != first]:
            raise TrainingError(
                f"worker {', '.join(different)} {complaint} than worker 0; give all of them the same command, the same"
                " version and a folder that all see"
            )

    def speaks(self) -> bool:
        """Whether this worker is the first to say why all end.

        The store outlives them if torchrun keeps it; one that the first worker kept may be gone, and all speak.
        """
        with suppress(RuntimeError):
            return self.store is None or self.store.add(TOLD, 1) == 1
        return True

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Around whatever the workers do together: say it in words if one of them is gone."""
        try:
            yield
        except RuntimeError as error:
            if not any(word in str(error).lower() for word in ("gloo", "nccl")):
                raise
            hangs = "timed out" in str(error).lower()
            what = f"a worker has not answered for {PATIENCE.seconds} s" if hangs else "another worker has ended"
            raise TrainingError(f"{what}; the same command goes on from the last checkpoint") from error


@contextmanager
def joined() -> Iterator[Workers]:
    """Join the processes that torchrun has started beside this one; without it, be alone.

    Whoever starts them sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does. If
    LOCAL_WORLD_SIZE says so, they are all on this machine. An error that ends all is told by one of them; in the others
    it has no message.

    Raises:
        ConfigError: these variables are incomplete.
        TrainingError: not all of them came.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield Workers()
        return
    workers = _join()
    try:
        yield workers
    except DragomanError as error:
        raise error if workers.speaks() else type(error)("") from error
    except Exception:
        workers.speaks()
        raise
    finally:
        distributed.destroy_process_group()


def _join() -> Workers:
    has_gpu = torch.cuda.is_available() and distributed.is_nccl_available()
    try:
        store, rank, count = next(rendezvous("env://", timeout=START))
        local_rank = int(os.environ.get("LOCAL_RANK", rank))
    except ValueError as error:
        raise ConfigError(f"WORLD_SIZE is set, but not all that belongs to it; start with torchrun ({error})") from None
    except RuntimeError as error:
        raise TrainingError(f"the workers do not find each other: {str(error).splitlines()[0]}") from None
    # torchrun keeps one store over its restarts, with the addresses of the dead in it.
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
        store=PrefixStore("updates", store),
        rank=rank,
        world_size=count,
        timeout=PATIENCE,
    )
    patient = distributed.new_group(timeout=LONG, backend="gloo")
    store.set_timeout(timedelta(seconds=10))
    are_together = os.environ.get("LOCAL_WORLD_SIZE") == str(count)
    return Workers(rank, count, local_rank, store, patient, are_together)
