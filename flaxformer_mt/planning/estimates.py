"""What is said of programs, and of a whole recipe: the compiler's estimates, never measurements."""

import dataclasses
from typing import Literal

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.planning.collectives import Collective
from flaxformer_mt.planning.layouts import Move
from flaxformer_mt.planning.memory import MicroBatchPlan
from flaxformer_mt.planning.topology import Slice
from flaxformer_mt.planning.workload import Workload

Timed = Literal["compiler", "roofline", "unknown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of one program on one slice; bytes are of one device.

    Attributes:
      name: "train 96 x (256 -> 256)".
      peak: bytes of arguments, results and temporaries; what is donated counts once.
      arguments: those of the arguments alone (state and batch).
      flops: floating-point operations of a whole run, over all devices, counted on the program as
        written: see `inspection.flops`.
      bytes_accessed: of HBM, by the compiler's count, which goes once through every loop.
      collectives: what devices send each other.
      moves: copies, transposes and reshapes in memory.
      padding: bytes of the arguments as they lie in tiles / bytes of their numbers.
      seconds: of computing; see `timed`. Collectives are not in it.
      interconnect_seconds: of sending, if nothing is hidden behind it and all links are busy.
      timed: whose estimate `seconds` is: the compiler's, or a roofline (operations and bytes
        against the chip's peaks).
      compile_seconds: how long the compiler took, here: the one number that is measured.
      failure: the first line of the reason why it does not compile or fit; "" if it does.
    """

    name: str
    peak: int = 0
    arguments: int = 0
    flops: int = 0
    bytes_accessed: float = 0.0
    collectives: tuple[Collective, ...] = ()
    moves: tuple[Move, ...] = ()
    padding: float = 1.0
    seconds: float = 0.0
    interconnect_seconds: float = 0.0
    timed: Timed = "unknown"
    compile_seconds: float = 0.0
    failure: str = ""

    @property
    def step_seconds(self) -> float:
        """Of computing, then sending; 0 = unknown. The hardware does some of both at once."""
        return self.seconds + self.interconnect_seconds if self.seconds else 0.0

    def utilization(self, place: Slice) -> float:
        """MFU: operations against what all devices could do in that time; 0 = unknown."""
        able = place.chip.flops * len(place.devices) * self.step_seconds
        return self.flops / able if able else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainEstimate:
    """The training step of one batch shape.

    Attributes:
      shape: of the whole batch.
      micro_batches: in which it is taken; 0 where it cannot be divided.
      target_tokens: real ones, of a full batch.
      share: of all batches.
    """

    shape: BatchShape
    estimate: Estimate
    micro_batches: int
    target_tokens: float
    share: float

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens, over all devices; 0 = unknown."""
        seconds = self.estimate.step_seconds
        return self.target_tokens / seconds if seconds else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchEstimate:
    """A search on one device.

    Attributes:
      rows: sentences at once.
      length: source tokens of each.
      estimate: of the whole program, its loop gone round once.
      encode_seconds: before the loop; 0 = unknown.
      encode_flops: operations before the loop.
    """

    rows: int
    length: int
    estimate: Estimate
    encode_seconds: float
    encode_flops: int = 0

    @property
    def token_seconds(self) -> float:
        """Once round the loop: a token more for every sentence."""
        return max(0.0, self.estimate.seconds - self.encode_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Of translations as long as their sources, which fill the program; 0 = unknown."""
        seconds = self.encode_seconds + self.length * self.token_seconds
        return self.rows * self.length / seconds if self.token_seconds else 0.0

    def utilization(self, place: Slice) -> float:
        """Of the loop: operations against what a device could do in that time; 0 = unknown."""
        able = place.chip.flops * self.token_seconds
        return (self.estimate.flops - self.encode_flops) / able if able else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """All of them.

    Attributes:
      state_bytes: parameters and optimiser state on one device.
      micro_batches: chosen for `mesh.memory_limit`; None without one.
    """

    place: Slice
    workload: Workload
    train: tuple[TrainEstimate, ...] = ()
    evaluate: tuple[Estimate, ...] = ()
    search: tuple[SearchEstimate, ...] = ()
    state_bytes: int = 0
    shards: int = 1
    micro_batches: MicroBatchPlan | None = None
    failure: str = ""
    """Why there is no plan at all: a mesh that does not come out even, and the like."""

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens of training, over all shapes as often as they come; 0 = unknown."""
        if not self.train or not all(one.estimate.step_seconds for one in self.train):
            return 0.0
        seconds = sum(one.share * one.estimate.step_seconds for one in self.train)
        return sum(one.share * one.target_tokens for one in self.train) / seconds

    @property
    def tokens_that_fit(self) -> int:
        """Cells of a batch, on each side, that a device could take at once; 0 = unknown.

        By a straight line from the state to each step, of which the most demanding counts.
        """
        memory, fitting = self.place.chip.memory, []
        for one in self.train:
            peak, rows = one.estimate.peak, -(-one.shape.rows // self.shards)
            if not memory or one.micro_batches != 1 or peak <= self.state_bytes:
                continue
            room = (memory - self.state_bytes) / (peak - self.state_bytes)
            fitting.append(int(max(0, room * rows)) * max(one.shape[1:]))
        return min(fitting, default=0)
