"""Prepares training text of any size: `python -m flaxformer_mt.prepare --config C --output DIR`.

`python -m flaxformer_mt.train --data.prepared DIR` trains on the result.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Literal

from flaxformer_mt.cli import command
from flaxformer_mt.config import save_config
from flaxformer_mt.config_arguments import ConfigArguments
from flaxformer_mt.data.prepared.job import SHARD_SIZE
from flaxformer_mt.data.prepared.preparing import prepare_corpus
from flaxformer_mt.data.prepared.remote import RemoteOutput
from flaxformer_mt.runtime.command import exit_process, quote
from flaxformer_mt.runtime.host import num_cpus
from flaxformer_mt.storage.paths import join


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareArguments(ConfigArguments):
    """Turn training text of any size into token ids on disk, once.

    `train --data.prepared DIR` starts from them within seconds, with little memory, and trains on
    the same batches as from the text. The same command continues an interrupted preparation.
    """

    output: str
    """Directory or address of the prepared corpus: token ids, tokenizer, and manifest.json, which
    is written last."""
    num_workers: int = 0
    """Processes that tokenize; 0 = one for each CPU core."""
    shard_size: int = SHARD_SIZE
    """Records of a shard. A preparation that was stopped repeats at most so many."""
    engine: Literal["local", "beam"] = "local"
    """"local": processes of this machine. "beam": workers of Apache Beam (extra `beam`)."""
    beam_options: str = ""
    """Options of Beam, in quotes: "--runner DataflowRunner --region europe-west4 ..."."""
    beam_folder: str = ""
    """Folder or address for the results of Beam's workers. They and this process share it. By
    default --output with ".beam" at the end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine != "beam" and (self.beam_options or self.beam_folder):
            raise ValueError("--beam-options and --beam-folder need --engine beam")
        if not self.output:
            raise ValueError("--output needs the directory to write the prepared corpus to")
        if self.num_workers < 0 or self.shard_size < 1:
            raise ValueError(
                "--num-workers must be 0 or more and --shard-size 1 or more, got "
                f"{self.num_workers} and {self.shard_size}"
            )
        if self.data.prepared:
            raise ValueError(
                "--data.prepared names a corpus that is prepared already; it is an option of "
                "`train`. `prepare` writes to --output."
            )


def prepare(arguments: PrepareArguments) -> None:
    """Prepares the corpus and prints what it contains."""
    from flaxformer_mt.checkpoints.loading import adopt_tokenizer
    from flaxformer_mt.checkpoints.workdir import make_workdir
    from flaxformer_mt.data.prepared.beam import BeamWorkers
    from flaxformer_mt.runtime.workdir_lock import own_workdir

    output = join(".", arguments.output)
    config = arguments.as_config()
    workers = None
    if arguments.engine == "beam":
        beside = str(output.absolute()).rstrip("/") + ".beam"
        shared = join(".", arguments.beam_folder or beside).absolute()
        workers = BeamWorkers(arguments.beam_options, shared)
    if (output / "checkpoints").exists():
        raise ValueError(f"{output} is the workdir of a training; choose another --output")
    make_workdir(output.absolute())
    with own_workdir(output, alone=True):
        if isinstance(output, Path):
            folder, remote = output, None
        else:
            remote = RemoteOutput(output)
            folder = remote.folder
        if config.training.init_from:
            adopt_tokenizer(config.training.init_from, folder)
        manifest = prepare_corpus(
            config.data,
            folder,
            num_processes=arguments.num_workers or num_cpus(),
            workers=workers,
            shard_size=arguments.shard_size,
            after_part=remote.copy if remote else None,
        )
        save_config(config, str(folder))
        if remote:
            remote.finish()
    print("\n".join(manifest.describe()))
    print(
        f"prepared in {output}. Train on it:\n"
        f"  python -m flaxformer_mt.train --data.prepared {quote(output)} --workdir WORKDIR"
    )


_main = command("prepare", PrepareArguments, prepare)


def main(args: list[str] | None = None) -> int:
    """Runs the command; see `cli.command`."""
    return _main(_with_beam_options(sys.argv[1:] if args is None else args))


def _with_beam_options(words: list[str]) -> list[str]:
    """Joins --beam-options with its value, which begins with "--" as flags do."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("--beam-options", "--beam_options"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


if __name__ == "__main__":
    exit_process(main())
