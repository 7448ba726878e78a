"""Training, from scratch or of a base model, in several processes, which share every step and stay in sync."""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tokenizers import Tokenizer

from reactree_lab.out_folder import write_whole
from reactree_lab.training.base import adapter_weights, base_model, learnt_weights, put_back
from reactree_lab.training.model import Learner, Optimiser, begun_with, make_model, rate_share, with_layers
from reactree_lab.training.prepared import Prepared, learnt_tokens, make_pass, passes, shares, steps
from reactree_lab.training.settings import PRESETS, TrainSettings
from reactree_ros.background.worker_process import deaf_to_the_terminal, serve_the_parent
from reactree_ros.errors import UserError

CHECKPOINT, TOKENIZER = "checkpoint.pt", "tokenizer.json"
TRAIN, HELD_OUT = "prepared_train", "prepared_held_out"
#: Largest norm of a gradient.
_CLIP = 1.0
#: Most seconds between two checkpoints.
_CHECKPOINT_EVERY = 300.0

#: A point of the curves: numbers by name.
Point = dict[str, float]


@dataclass
class Progress:
    step: int = 0  # finished steps
    tokens: int = 0  # tokens trained on
    seconds: float = 0.0  # training time
    points: list[Point] = field(default_factory=list)  # points of the curves
    loss: float = 0.0  # loss of the tokens learnt since the last point
    learnt: int = 0  # number of these tokens


Shown = Callable[[Progress, float], None]
"""Called after each step with the progress and the loss of the step."""


def device_and_precision(settings: TrainSettings) -> tuple[torch.device, torch.dtype]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if settings.precision != "auto":
        return device, torch.bfloat16 if settings.precision == "bf16" else torch.float32
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else has_fast_bf16()
    return device, torch.bfloat16 if fast else torch.float32


def has_fast_bf16() -> bool:
    """Return whether the processor multiplies in bf16; otherwise bf16 is slower than fp32."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags or " bf16" in flags


def process_count(settings: TrainSettings) -> int:
    if settings.processes:
        return settings.processes
    return torch.cuda.device_count() or len(os.sched_getaffinity(0))


def train_in_processes(out: Path, settings: TrainSettings, shown: Shown) -> Progress:
    """Train until all tokens have come up; resume from a checkpoint if there is one."""
    count = process_count(settings)
    _take_threads(count)
    if count == 1:
        return _Trainer(out, settings, rank=0, count=1).run(shown)
    meeting = out / "processes"
    meeting.unlink(missing_ok=True)
    others = torch.multiprocessing.get_context("spawn")
    started = [
        others.Process(target=_other, args=(out, settings, rank, count), daemon=True) for rank in range(1, count)
    ]
    with deaf_to_the_terminal():
        for one in started:
            one.start()
    try:
        _join(meeting, rank=0, count=count)
        return _Trainer(out, settings, rank=0, count=count).run(shown)
    except RuntimeError as error:
        if not _is_of_a_peer(error):
            raise
        raise UserError(
            f"a training process has died ({' '.join(str(error).split())[:120]}); repeat the command to resume from "
            "the last checkpoint"
        ) from error
    finally:
        for one in started:
            one.terminate()
            one.join()
        if dist.is_initialized():
            dist.destroy_process_group()
        meeting.unlink(missing_ok=True)


def _other(out: Path, settings: TrainSettings, rank: int, count: int) -> None:
    serve_the_parent()
    try:
        _join(out / "processes", rank=rank, count=count)
        _Trainer(out, settings, rank=rank, count=count).run(lambda progress, loss: None)
    except RuntimeError as error:
        if not _is_of_a_peer(error):  # the failed process reports its own error
            raise


def _is_of_a_peer(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or "Connection" in str(error)


def _take_threads(count: int) -> None:
    """Divide the cores among the processes; sums are only reproducible with the same number of threads."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // count))


def _join(meeting: Path, *, rank: int, count: int) -> None:
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank % torch.cuda.device_count())
    _take_threads(count)
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, init_method=f"file://{meeting.resolve()}", rank=rank, world_size=count)


class _Trainer:
    def __init__(self, out: Path, settings: TrainSettings, *, rank: int, count: int) -> None:
        self._path, self._settings, self._rank, self._count = out / CHECKPOINT, settings, rank, count
        self._train, self._held_out = Prepared.load(out / TRAIN), Prepared.load(out / HELD_OUT)
        device, precision = device_and_precision(settings)
        self._learner = Learner(self._model(out / TOKENIZER).to(device), precision)
        self._optimiser = Optimiser(self._learner.model, settings.rate, base=bool(settings.base))
        self._progress = Progress()
        if self._path.exists():
            self._go_on_from(load_checkpoint(self._path))
        elif settings.start:
            self._begin_with(settings.start)

    def _model(self, tokenizer: Path) -> Any:
        if self._settings.base:
            return base_model(self._settings)
        return make_model(self._settings, Tokenizer.from_file(str(tokenizer)).get_vocab_size())

    def _go_on_from(self, state: dict[str, Any]) -> None:
        try:
            put_back(self._learner.model, state["model"])
            self._optimiser.load_state_dict(state["optimiser"])
            self._progress = Progress(**state["progress"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise UserError(f"{self._path}: has another architecture ({reason}); name another --out") from error

    def _begin_with(self, start: str) -> None:
        settings, model = self._settings, self._learner.model
        wanted = f"rank {settings.rank}" if settings.base else f"preset {settings.preset}"
        try:
            if settings.base:
                put_back(model, adapter_weights(start))
                return
            weights = with_layers(begun_with(start).weights, PRESETS[settings.preset].layers)
            weights.setdefault("lm_head.weight", weights.get("model.embed_tokens.weight"))  # both are the same weights
            model.load_state_dict(weights)
        except (RuntimeError, AttributeError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise UserError(f"--start {start}: does not have the architecture of {wanted} ({reason})") from error

    def run(self, shown: Shown) -> Progress:
        progress, settings = self._progress, self._settings
        saved, begun = progress.seconds, time.monotonic() - progress.seconds
        order = steps(
            self._train,
            tokens=settings.tokens,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            parts=settings.parts,
        )
        for nodes in islice(order, progress.step, None):
            loss, count = self._step(nodes)
            progress.loss, progress.learnt = progress.loss + loss, progress.learnt + count
            progress.step += 1
            progress.tokens += int(self._train.lengths[nodes].sum())
            progress.seconds = time.monotonic() - begun
            shown(progress, loss / max(1, count))
            due = progress.tokens >= min(settings.tokens, self._next_report())
            if due:
                progress.points.append(self._point(progress.loss / max(1, progress.learnt)))
                progress.loss, progress.learnt = 0.0, 0
            if due or progress.seconds - saved >= _CHECKPOINT_EVERY:
                self._save()
                saved = progress.seconds
        return progress

    def _next_report(self) -> float:
        each = self._settings.tokens / self._settings.reports
        last = self._progress.points[-1]["tokens"] if self._progress.points else 0
        return (math.floor(last / each) + 1) * each

    def _step(self, nodes: Sequence[int]) -> tuple[float, int]:
        """Learn some nodes; return the loss of all their learnt tokens, and the number of these."""
        learner, settings = self._learner, self._settings
        learner.train(learning=True)
        count, read = learnt_tokens(self._train, nodes), int(self._train.lengths[nodes].sum())
        mine = shares(self._train, passes(self._train, nodes, pass_tokens=settings.pass_tokens), self._count)[
            self._rank
        ]
        reading = 0.0 if settings.base else settings.reading
        sums = torch.zeros((), device=learner.model.device)
        for those in mine:
            one = make_pass(self._train, those, learnt=True)
            if not one.learn.any():
                continue
            learnt = learner(one, reading=reading > 0)
            loss = learnt.losses.sum()
            learner.learn(loss / max(1, count) + reading * learnt.read / read)
            sums += loss.detach()  # asked for at the end of the step: until then, nothing waits for a GPU
        learner.hand_over()
        total = float(sums)
        if count:
            total = self._together(total)
            torch.nn.utils.clip_grad_norm_(learner.model.parameters(), _CLIP)
            self._optimiser.step(rate_share(self._progress.tokens / settings.tokens, settings.decay))
        return total, count

    def _together(self, total: float) -> float:
        if self._count == 1:
            return total
        parameters = [one for one in self._learner.model.parameters() if one.requires_grad]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        flat = torch.cat([*(one.reshape(-1) for one in gradients), torch.tensor([total], device=gradients[0].device)])
        dist.all_reduce(flat)
        at = 0
        for parameter in parameters:
            parameter.grad = flat[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        return float(flat[-1])

    def _point(self, loss: float) -> Point:
        """Measure on held-out houses: the loss, and the share of decisions equal word for word."""
        settings, kinds = self._settings, self._held_out.kinds
        last = self._progress.tokens >= settings.tokens
        nodes = np.random.default_rng(settings.seed).permutation(len(self._held_out))
        looked_at = nodes if last else nodes[: settings.held_out]
        groups = passes(self._held_out, [int(one) for one in looked_at], pass_tokens=4 * settings.pass_tokens)
        mine = shares(self._held_out, groups, self._count)[self._rank]
        sums = torch.zeros(2 + 2 * len(kinds), dtype=torch.float64)
        self._learner.train(learning=False)
        with torch.inference_mode():
            for those in mine:
                one = make_pass(self._held_out, those)
                if not one.wanted.any():
                    continue
                learnt = self._learner(one)
                sums[0] += float(learnt.losses[torch.from_numpy(one.learn).to(learnt.losses.device)].double().sum())
                sums[1] += int(one.learn.sum())
                right = learnt.right.cpu().numpy() | ~one.learn
                whole = np.logical_and.reduceat(right, np.concatenate([[0], one.ends[:-1]]))
                for kind in range(len(kinds)):
                    chosen = one.wanted & (one.kinds == kind)
                    sums[2 + 2 * kind] += int(whole[chosen].sum())
                    sums[3 + 2 * kind] += int(chosen.sum())
        if self._count > 1:
            sums = sums.to(self._learner.model.device)
            dist.all_reduce(sums)
        found = [float(one) for one in sums]
        shares_of = {f"exact_{kind}": found[2 + 2 * n] / max(1.0, found[3 + 2 * n]) for n, kind in enumerate(kinds)}
        return {
            "tokens": self._progress.tokens,
            "loss": loss,
            "held_out_loss": found[0] / max(1.0, found[1]),
            "exact": sum(found[2::2]) / max(1.0, sum(found[3::2])),
            **shares_of,
        }

    def _save(self) -> None:
        if self._rank:
            return
        state = {
            "model": learnt_weights(self._learner.model),
            "optimiser": self._optimiser.state_dict(),
            "progress": vars(self._progress),
        }
        content = io.BytesIO()
        torch.save(state, content)
        write_whole(self._path, content.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path}: is not a checkpoint of `reactree lab train` ({type(error).__name__}); name another --out"
        ) from error
    return dict(state)
