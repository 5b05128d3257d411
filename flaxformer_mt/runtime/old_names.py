"""Names of config fields, flags and commands in earlier versions.

A config.json of a workdir with an old name still loads. For a flag, a command or a config file with
an old name, the error message gives the new name, or says what to do instead.
"""

from collections.abc import Iterable
from typing import Any

RENAMED: dict[str, str] = {"model.neighborhood": "model.local_window"}
"""Old dotted name -> new dotted name."""
REMOVED: dict[str, str] = {
    "decoding.retry_flagged": "check the flags of translations and translate those again",
    **{
        f"decoding.guard.{limit}": "the limit is fixed, see evaluation/quality_flags.py"
        for limit in ("max_repeats", "max_loop_tokens", "max_copied", "min_coverage")
        + ("max_uncovered", "min_tokens")
    },
    "mesh.rules": "the rules are fixed in runtime/sharding.py; a dimension that devices do not "
    "divide is not split",
    "deadline": "stop training with SIGTERM or ctrl-C, which save it; then run `average` and "
    "`evaluate`",
    "programs": "`plan` estimates training; `benchmarks` measures translation",
    "read_data": "`plan` assumes the lengths of sentences; give data.max_source_length, "
    "data.max_target_length and data.tokenizer.vocab_size",
    "assume_lengths": "`plan` always assumes the lengths of sentences",
    "tokens_per_chip": "multiply it by the number of chips, and give data.tokens_per_batch",
    "full_effort": "`plan` compiles at low effort, because otherwise the compiler gives no time",
    "markdown": "redirect the output of `plan`, which contains a Markdown table",
    "plan --json": "redirect the output, which contains a Markdown table",
    **{
        limit: "the limit is fixed, see interop/verify.py; an export that fails is kept in "
        "OUTPUT.failed"
        for limit in ("min_identical", "max_bleu_difference", "min_bleu_to_workdir")
    },
}
"""Dotted name -> what to do instead. "plan --json" is a flag that only this command has lost."""
REMOVED_COMMANDS: dict[str, str] = {
    "calibrate": "use --decoding.flag-faults and the token log-probabilities of "
    "`translate --json --details`",
}
"""Command -> what to do instead."""


def rename_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Returns nested dicts with the current keys, so that files of earlier versions load."""
    from flax.traverse_util import flatten_dict, unflatten_dict  # imports JAX, which is slow

    flat = flatten_dict(values, sep=".", keep_empty_nodes=True)
    flat = {
        name: value
        for name, value in flat.items()
        if not any(f"{name}.".startswith(f"{old}.") for old in REMOVED)
    }
    for old, new in RENAMED.items():
        if old in flat:
            flat.setdefault(new, flat.pop(old))
    return unflatten_dict(flat, sep=".")


def refuse_old_flags(args: Iterable[str], command: str) -> None:
    """Raises ValueError for a flag with an old name (with - or _); the message has the new name."""
    for argument in args:
        if argument.startswith("--"):
            name = argument[2:].split("=")[0].replace("-", "_")
            if message := explain(name) or explain(f"{command} --{name}"):
                raise ValueError(message)


def explain(name: str, *, last_part: bool = False) -> str:
    """Returns a sentence about the replacement of an old dotted name; "" for any other name.

    With `last_part`, `name` is only the part after the last dot.
    """
    for old in (*RENAMED, *REMOVED):
        known = old.split(".")[-1] if last_part else old
        if name == known or name.startswith(f"{old}."):
            new = RENAMED.get(old)
            return f"{old} is now {new}" if new else f"{old} was removed: {REMOVED[old]}"
    return ""
