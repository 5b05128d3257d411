"""A disk cache of traced and lowered programs, so that a second start does not trace them again.

JAX's compilation cache (see `compilation_cache`) needs the traced program to find its entry, and
tracing a search takes longer than one translation. `jax.export` writes the traced program beside
the compiled ones. Its file name is a digest of everything it depends on: our source, the versions
of JAX and Flax, JAX's platform and settings, the static arguments, and the types of the others.
"""

import contextlib
import functools
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


@functools.cache
def _source_digest() -> str:
    """Returns a digest of this package's source, which decides what a trace contains."""
    digest = _DIGEST()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def register_result(kind: type[T]) -> type[T]:
    """Registers a named tuple for `jax.export`, as a result of a cached program or a part of it."""
    name = f"{kind.__module__}.{kind.__name__}"
    return export.register_namedtuple_serialization(kind, serialized_name=name)


def call_cached(program: Callable[..., T], /, *arguments: Any, **static: Any) -> T:
    """Returns `program(*arguments, **static)`, with its trace from the cache if possible.

    Args:
      program: a jitted function of this package. Its results are arrays, or named tuples that were
        given to `register_result`.
      arguments: pytrees of arrays.
      static: values of `static_argnames`.
    """
    leaves, tree = jax.tree.flatten(arguments)
    folder = _folder(leaves)
    if folder is None:
        return program(*arguments, **static)
    kinds = tuple((jax.typeof(x), getattr(x, "sharding", None)) for x in leaves)
    # JAX's current settings, including those of context managers.
    settings = repr((jax.default_backend(), sorted(jax.config.values.items())))
    key = program, tuple(sorted(static.items())), tree, kinds, settings
    if key not in _known:
        _known[key] = _find(folder, key, leaves) or _on_leaves(program, tree, static)
    return _known[key](*leaves)


def _folder(leaves: list[Any]) -> Path | None:
    """Returns JAX's cache folder, or None if it is not local or the arguments lie elsewhere.

    `jax.export` expects them on devices of the default backend.
    """
    settings: Any = jax.config  # its attributes are not declared
    folder = settings.jax_compilation_cache_dir
    if not folder or not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return None
    devices = {device for x in leaves if isinstance(x, jax.Array) for device in x.devices()}
    elsewhere = {device.platform for device in devices} - {jax.default_backend()}
    if "://" in folder or elsewhere or settings.jax_default_device is not None:
        return None
    return Path(folder)


def _on_leaves(
    program: Callable[..., Any], tree: Any, static: dict[str, Any]
) -> Callable[..., Any]:
    """Returns `program` as a function of the leaves of its arguments."""

    def of_leaves(*leaves: Any) -> Any:
        return program(*tree.unflatten(leaves), **static)

    return of_leaves


def _find(folder: Path, key: Any, leaves: list[Any]) -> Callable[..., Any] | None:
    """Returns the program from the disk, or traces and writes it; None if that is impossible."""
    program, static, tree, kinds, settings = key
    name = repr((static, str(tree), kinds))
    if " at 0x" in name or not all(map(_is_known, jax.tree.leaves(static))):
        return None  # `repr` does not identify a function or a class of other code
    versions = [version(package) for package in ("jax", "jaxlib", "flax")]
    name = repr((_source_digest(), versions, settings, name))
    file = folder / f"trace-{program.__name__}-{_DIGEST(name.encode()).hexdigest()}"
    traced = _read(file)
    if traced is None:
        try:
            flat = jax.jit(_on_leaves(program, tree, dict(static)))
            traced = export.export(flat)(*leaves)
            _write(file, bytes(traced.serialize()))
        except (NotImplementedError, ValueError):
            return None  # `jax.export` cannot serialise some operations of some devices

    def of_leaves(*leaves: Any) -> Any:
        return traced.call(*leaves)

    of_leaves.__name__ = program.__name__  # the name in JAX's cache and messages
    return jax.jit(of_leaves)


def _is_known(value: Any) -> bool:
    """Returns whether `repr`, our source and the versions identify the value."""
    return type(value).__module__.split(".")[0] in ("builtins", "flaxformer_mt", "jax", "jaxlib")


def _read(file: Path) -> export.Exported | None:
    """Returns None if the file is missing or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, rest = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return export.deserialize(bytearray(rest)) if _DIGEST(rest).digest() == digest else None


def _write(file: Path, content: bytes) -> None:
    """Writes the file atomically; failures, such as a full disk, are ignored."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_output(str(file)) as out:
            out.write(_DIGEST(content).digest() + content)
