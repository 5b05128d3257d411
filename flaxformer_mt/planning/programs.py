"""Compiles a program, and reads what the compiler says of it."""

import time
from typing import Any

from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.planning.account import peak_memory, wanted_memory
from flaxformer_mt.planning.collectives import count_collectives
from flaxformer_mt.planning.estimates import Estimate, Timed
from flaxformer_mt.planning.layouts import argument_padding, count_moves
from flaxformer_mt.planning.topology import Slice


def estimate(name: str, place: Slice, program: Any, *arguments: Any) -> Estimate:
    """Compiles a jitted program for shapes with shardings, and reads what it takes.

    A program that is refused (too large for the memory, a shape that cannot be divided) gives an
    `Estimate` with the reason as `failure`, and with the memory that it wants, if that is told.
    """
    started = time.perf_counter()
    try:
        traced = program.trace(*arguments)
        flops = jaxpr_flops(traced.jaxpr)
        compiled = traced.lower().compile(compiler_options=place.compiler_options or None)
    except (ValueError, RuntimeError) as error:
        # JAX's own errors of compiling are RuntimeErrors.
        return Estimate(
            name=name,
            peak=wanted_memory(str(error)),
            compile_seconds=time.perf_counter() - started,
            failure=_first_line(str(error)),
        )
    took = time.perf_counter() - started
    peak, held = peak_memory(compiled)
    costs: Any = compiled.cost_analysis() or {}
    text = compiled.as_text()
    collectives = tuple(count_collectives(text, devices=len(place.devices)))
    seconds, timed = _seconds(costs, flops, place, loops=" while(" in text)
    sent = sum(one.sent for one in collectives)
    return Estimate(
        name=name,
        peak=peak,
        arguments=held,
        flops=flops,
        bytes_accessed=float(costs.get("bytes accessed", 0.0)),
        collectives=collectives,
        moves=tuple(count_moves(text)),
        padding=argument_padding(text),
        seconds=seconds,
        interconnect_seconds=sent / place.chip.interconnect if place.chip.interconnect else 0.0,
        timed=timed,
        compile_seconds=took,
    )


def _seconds(costs: Any, flops: int, place: Slice, *, loops: bool) -> tuple[float, Timed]:
    """Of computing alone.

    The compiler goes once through every loop, so its time grows by the operations that it left out.
    At full effort its sum holds nonsense (it is negative, libtpu 0.0.42): then a roofline.
    """
    chip, counted = place.chip, float(costs.get("flops", 0.0))
    if not chip.flops:
        return 0.0, "unknown"
    each = flops / len(place.devices)
    # Theirs and ours differ a little in what counts as an operation: only more is a loop.
    rounds = max(1.0, each / counted) if loops and counted > 0 else 1.0
    told = float(costs.get("optimal_seconds", 0.0)) * rounds
    if told > 0:
        return told, "compiler"
    moved = float(costs.get("bytes accessed", 0.0)) * rounds
    return max(each / chip.flops, moved / chip.bandwidth), "roofline"


def _first_line(message: str) -> str:
    """The first line that says something."""
    lines = (line.strip() for line in message.splitlines())
    return next((line for line in lines if line), "no reason given")
