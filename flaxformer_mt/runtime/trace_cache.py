"""A disk cache of traced and compiled programs, which makes a second start fast.

JAX's compilation cache (see `compilation_cache`) finds an entry only after tracing, and tracing a
search takes longer than one translation. So this module writes the traced program (`jax.export`)
beside the compiled programs. Its file name is a digest of everything that a trace depends on: our
source, the versions of JAX and Flax, JAX's platform and settings, the static arguments, and the
types of the other arguments.

Commands enable JAX's compilation cache, but a host application may not. Without it, this module
also writes the compiled program. The digest in that file name also covers the devices.
"""

import contextlib
import functools
import hashlib
import logging
import os
import platform
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax import export
from jax.experimental import serialize_executable

from flaxformer_mt.runtime.compilation_cache import delete_oldest
from flaxformer_mt.storage.paths import cache_folder, write_file

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_LONG = 3.0
"""Seconds after which a compilation is reported."""
_DIGEST = hashlib.sha256
_known: dict[Any, Callable[..., Any]] = {}
_locks: dict[Any, threading.Lock] = {}


@functools.cache
def _source_digest() -> str:
    """Returns a digest of the source of this package, because it determines every trace."""
    digest = _DIGEST()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def register_result(kind: type[T]) -> type[T]:
    """Registers a named tuple for `jax.export`. Cached programs may then return it."""
    name = f"{kind.__module__}.{kind.__name__}"
    return export.register_namedtuple_serialization(kind, serialized_name=name)


def call_cached(program: Callable[..., T], /, *arguments: Any, **static: Any) -> T:
    """Returns `program(*arguments, **static)`. It uses the cached trace if there is one.

    `program` is a jitted function of this package. Its results are arrays, or named tuples that
    `register_result` knows. `arguments` are pytrees of arrays, `static` the values of
    `static_argnames`.
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
        # Other threads that need the same program wait, instead of compiling it too.
        with _locks.setdefault(key, threading.Lock()):
            if key not in _known:
                with _announced(folder):
                    found = _find(folder, key, leaves) or _on_leaves(program, tree, static)
                    result = found(*leaves)  # may compile
                    _known[key] = found
                    return result
    return _known[key](*leaves)


@contextlib.contextmanager
def _announced(folder: Path) -> Iterator[None]:
    """Logs a message if the compilation takes more than `_LONG` seconds."""
    message = (
        "compiling a program for a new kind of request. This happens once: the program is kept in "
        f"{folder}"
    )
    timer = threading.Timer(_LONG, _LOGGER.warning, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _folder(leaves: list[Any]) -> Path | None:
    """Returns JAX's cache folder, or the user's cache folder if JAX has none.

    Returns None if there is no local folder, or if the arguments are not on devices of the default
    backend, which `jax.export` requires.
    """
    settings: Any = jax.config  # its attributes are not declared
    if not settings.jax_enable_compilation_cache or jax.process_count() > 1:
        return None
    try:
        folder = settings.jax_compilation_cache_dir or str(cache_folder("programs"))
    except OSError:  # the user has no home directory
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
    """Returns the program from disk, or traces and writes it. None if JAX cannot export it."""
    program, static, tree, kinds, settings = key
    name = repr((static, str(tree), kinds))
    if " at 0x" in name or not all(map(_is_known, jax.tree.leaves(static))):
        return None  # `repr` does not determine a function, or an object of other packages
    versions = [version(package) for package in ("jax", "jaxlib", "flax")]
    name = repr((_source_digest(), versions, settings, name))
    file = folder / f"trace-{program.__name__}-{_DIGEST(name.encode()).hexdigest()}"
    content = _read(file)
    traced = export.deserialize(bytearray(content)) if content else None
    if traced is None:
        try:
            flat = jax.jit(_on_leaves(program, tree, dict(static)))
            traced = export.export(flat)(*leaves)
            _write(file, bytes(traced.serialize()))
        except (NotImplementedError, ValueError):
            return None  # `jax.export` does not support some operations

    def of_leaves(*leaves: Any) -> list[Any]:
        return jax.tree.leaves(traced.call(*leaves))

    of_leaves.__name__ = program.__name__  # the name in JAX's cache and messages
    run = jax.jit(of_leaves)
    if not jax.config.values["jax_compilation_cache_dir"]:
        run = _find_compiled(file, run, traced.out_tree.num_leaves, leaves)
    return lambda *leaves: traced.out_tree.unflatten(run(*leaves))


def _find_compiled(file: Path, run: Any, num_results: int, leaves: list[Any]) -> Callable[..., Any]:
    """Returns the compiled function `run`: from disk, or compiled now and written."""
    devices = _devices(leaves)
    name = f"{file.name}-{_machine(devices)}"
    file = file.with_name(f"compiled-{_DIGEST(name.encode()).hexdigest()}")
    _, tree = jax.tree.flatten((tuple(leaves), {}))
    results = jax.tree.structure([0] * num_results)
    with contextlib.suppress(Exception):  # any problem with the file: compile again
        if content := _read(file):
            return serialize_executable.deserialize_and_load(
                content, tree, results, execution_devices=devices
            )
    compiled = run.lower(*leaves).compile()
    with contextlib.suppress(NotImplementedError, ValueError):  # some devices do not support it
        _write(file, serialize_executable.serialize(compiled)[0])
        delete_oldest(file.parent)
    return compiled


def _devices(leaves: list[Any]) -> list[Any]:
    """Returns the devices of the arguments, in the order of their mesh if they have one."""
    for x in leaves:
        mesh = getattr(getattr(x, "sharding", None), "mesh", None)
        if mesh is not None:
            return list(mesh.devices.flat)
    found = {device for x in leaves if isinstance(x, jax.Array) for device in x.devices()}
    return list(found) or jax.devices()[:1]


def _machine(devices: list[Any]) -> str:
    """Returns a description of what a compiled program depends on, besides its trace."""
    processor = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        wanted = ("model name", "flags", "Features")  # of the first core
        processor = "".join(sorted({line for line in lines if line.startswith(wanted)}))
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    kinds = [(device.device_kind, device.id) for device in devices]
    client = devices[0].client
    return repr((kinds, client.platform, client.platform_version, processor, flags))


def _is_known(value: Any) -> bool:
    """Returns whether `repr` and the package versions determine the value."""
    return type(value).__module__.split(".")[0] in ("builtins", "flaxformer_mt", "jax", "jaxlib")


def _read(file: Path) -> bytes | None:
    """Returns the content of a file; None if it is missing or damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, rest = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
    return rest if _DIGEST(rest).digest() == digest else None


def _write(file: Path, content: bytes) -> None:
    """Writes the file atomically. Ignores failures, such as a full disk."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, _DIGEST(content).digest() + content)
