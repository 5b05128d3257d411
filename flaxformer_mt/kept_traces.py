"""Programs kept on disk as JAX has traced and lowered them, so that a second start does neither.

JAX's cache (see `compilation_cache`) spares compiling; but to find its entry a program must first
be traced and lowered, which takes longer for a search than to translate a sentence by it. What that
gives is written beside the compiled programs, by `jax.export`, under a name that tells all that it
depends on: our code, the versions of JAX and Flax, JAX's settings, the static arguments, and the
kinds of the others.
"""

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax import export

T = TypeVar("T")
_DIGEST = hashlib.sha256
_known: dict[Any, Callable[..., Any]] = {}


def keepable(kind: type[T]) -> type[T]:
    """Lets a named tuple be the result, or part of the result, of what is kept."""
    name = f"{kind.__module__}.{kind.__name__}"
    return export.register_namedtuple_serialization(kind, serialized_name=name)


def call_kept(program: Callable[..., T], /, *arguments: Any, **static: Any) -> T:
    """`program(*arguments, **static)`; its trace is kept where compiled programs are.

    Args:
      program: a jitted function of this package. Its results are arrays, or named tuples that are
        `keepable`.
      arguments: pytrees of arrays.
      static: of `static_argnames`, with a `repr` that tells all about them.
    """
    folder = _folder()
    if folder is None:
        return program(*arguments, **static)
    leaves, tree = jax.tree.flatten(arguments)
    kinds = tuple((jax.typeof(x), getattr(x, "sharding", None)) for x in leaves)
    key = program, tuple(sorted(static.items())), tree, kinds
    if key not in _known:
        _known[key] = _find(folder, key, leaves) or _as_it_is(program, tree, static)
    return _known[key](*leaves)


def _folder() -> Path | None:
    """Where JAX keeps what it compiles, if it does so in a folder of this machine."""
    settings: Any = jax.config  # whose names are not declared
    folder = settings.jax_compilation_cache_dir
    if not folder or not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return None
    return None if "://" in folder else Path(folder)


def _as_it_is(program: Callable[..., Any], tree: Any, static: dict[str, Any]) -> Callable[..., Any]:
    """`program` of the leaves of its arguments."""

    def of_leaves(*leaves: Any) -> Any:
        return program(*tree.unflatten(leaves), **static)

    return of_leaves


def _find(folder: Path, key: Any, leaves: list[Any]) -> Callable[..., Any] | None:
    """From the disk, or traced now and written there; None for what has no name that lasts."""
    program, static, tree, kinds = key
    name = repr((static, str(tree), kinds))
    if " at 0x" in name:  # a function, known by its place in the memory of this process
        return None
    versions = [version(package) for package in ("jax", "jaxlib", "flax")]
    name = repr((_code(), versions, sorted(jax.config.values.items()), name))
    file = folder / f"trace-{program.__name__}-{_DIGEST(name.encode()).hexdigest()}"
    traced = _read(file)
    if traced is None:
        try:
            flat = jax.jit(_as_it_is(program, tree, dict(static)))
            traced = export.export(flat)(*leaves)
            _write(file, bytes(traced.serialize()))
        except (NotImplementedError, ValueError):
            return None  # there are operations of some devices that cannot be written down

    def of_leaves(*leaves: Any) -> Any:
        return traced.call(*leaves)

    of_leaves.__name__ = program.__name__  # by which JAX's own cache and its messages know it
    return jax.jit(of_leaves)


@functools.cache
def _code() -> str:
    """Other code may trace another program."""
    digest = _DIGEST()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(file: Path) -> export.Exported | None:
    """None where there is none, or a damaged one."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, rest = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return export.deserialize(bytearray(rest)) if _DIGEST(rest).digest() == digest else None


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all; a disk that is full, say, does not stop anyone."""
    with contextlib.suppress(OSError):
        number, draft = tempfile.mkstemp(dir=file.parent, prefix="draft-")
        with os.fdopen(number, "wb") as out:
            out.write(_DIGEST(content).digest() + content)
        os.replace(draft, file)
