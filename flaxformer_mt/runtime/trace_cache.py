"""Programs kept on disk as JAX has traced and lowered them, so that a second start does neither.

JAX's cache (see `compilation_cache`) spares compiling; but to find its entry a program must first
be traced and lowered, which takes longer for a search than to translate a sentence by it. What that
gives is written beside the compiled programs, by `jax.export`, under a name that tells all that it
depends on: our code, the versions of JAX and Flax, JAX's platform and settings, the static
arguments, and the kinds of the others.
"""

import contextlib
import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax import export

from flaxformer_mt.runtime.files import open_output

T = TypeVar("T")
_DIGEST = hashlib.sha256
_known: dict[Any, Callable[..., Any]] = {}


def _code() -> str:
    """A digest of this package: other code may trace another program."""
    digest = _DIGEST()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


_CODE = _code()  # now: it may have changed on the disk when something is traced


def register_result(kind: type[T]) -> type[T]:
    """Lets a named tuple be the result, or part of the result, of what is kept."""
    name = f"{kind.__module__}.{kind.__name__}"
    return export.register_namedtuple_serialization(kind, serialized_name=name)


def call_cached(program: Callable[..., T], /, *arguments: Any, **static: Any) -> T:
    """`program(*arguments, **static)`; its trace is kept where compiled programs are.

    Args:
      program: a jitted function of this package. Its results are arrays, or named tuples that are
        `register_result`.
      arguments: pytrees of arrays.
      static: of `static_argnames`.
    """
    leaves, tree = jax.tree.flatten(arguments)
    folder = _folder(leaves)
    if folder is None:
        return program(*arguments, **static)
    kinds = tuple((jax.typeof(x), getattr(x, "sharding", None)) for x in leaves)
    # The settings as they are in this place, inside of context managers too.
    settings = repr((jax.default_backend(), sorted(jax.config.values.items())))
    key = program, tuple(sorted(static.items())), tree, kinds, settings
    if key not in _known:
        _known[key] = _find(folder, key, leaves) or _as_it_is(program, tree, static)
    return _known[key](*leaves)


def _folder(leaves: list[Any]) -> Path | None:
    """Where JAX keeps what it compiles, if it does so in a folder of this machine, and if the
    arguments are where `jax.export` expects them."""
    settings: Any = jax.config  # whose names are not declared
    folder = settings.jax_compilation_cache_dir
    if not folder or not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return None
    devices = {device for x in leaves if isinstance(x, jax.Array) for device in x.devices()}
    elsewhere = {device.platform for device in devices} - {jax.default_backend()}
    if "://" in folder or elsewhere or settings.jax_default_device is not None:
        return None
    return Path(folder)


def _as_it_is(program: Callable[..., Any], tree: Any, static: dict[str, Any]) -> Callable[..., Any]:
    """`program` of the leaves of its arguments."""

    def of_leaves(*leaves: Any) -> Any:
        return program(*tree.unflatten(leaves), **static)

    return of_leaves


def _find(folder: Path, key: Any, leaves: list[Any]) -> Callable[..., Any] | None:
    """From the disk, or traced now and written there; None for what cannot be."""
    program, static, tree, kinds, settings = key
    name = repr((static, str(tree), kinds))
    if " at 0x" in name or not all(map(_is_known, jax.tree.leaves(static))):
        return None  # a function, known by its place in the memory; a class with code of its own
    versions = [version(package) for package in ("jax", "jaxlib", "flax")]
    name = repr((_CODE, versions, settings, name))
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


def _is_known(value: Any) -> bool:
    """Whether its `repr`, `_CODE` and the versions tell all about it."""
    return type(value).__module__.split(".")[0] in ("builtins", "flaxformer_mt", "jax", "jaxlib")


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
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_output(str(file)) as out:
            out.write(_DIGEST(content).digest() + content)
