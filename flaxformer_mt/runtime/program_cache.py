"""A disk cache of compiled programs, which makes a second start fast.

JAX's compilation cache (see `compilation_cache`) finds an entry only after tracing, and tracing a
search takes longer than one translation. So this module keeps the compiled program under a digest
of everything that it depends on: our source, the versions of JAX and Flax, JAX's platform and
settings, the static arguments, the types of the other arguments, and the devices.
"""

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import platform
import threading
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.experimental import serialize_executable

from flaxformer_mt.runtime.compilation_cache import delete_oldest
from flaxformer_mt.storage.paths import cache_folder, write_file

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_LONG = 3.0
"""Seconds after which a compilation is reported."""
_DIGEST = hashlib.sha256
_known: dict[Any, Callable[..., Any]] = {}


@functools.cache
def _source_digest() -> str:
    """Returns a digest of the source of this package, because it determines every trace."""
    digest = _DIGEST()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def call_cached(program: Callable[..., T], /, *arguments: Any, **static: Any) -> T:
    """Returns `program(*arguments, **static)`. It uses the compiled program on disk if it exists.

    Args:
      program: a jitted function of this package.
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
        with _announced(folder):
            _known[key] = _find(folder, key, arguments) or functools.partial(program, **static)
    return _known[key](*arguments)


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
    backend, whose name is part of the digest.
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


def _find(folder: Path, key: Any, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Returns the program from disk, or compiles and writes it. None if it has no lasting name."""
    program, static, tree, kinds, settings = key
    name = repr((static, str(tree), kinds))
    if " at 0x" in name or not all(map(_is_known, jax.tree.leaves(static))):
        return None  # `repr` does not identify a function or a class of other code
    devices = _devices(jax.tree.leaves(arguments))
    versions = [version(package) for package in ("jax", "jaxlib", "flax")]
    name = repr((_source_digest(), versions, settings, _machine(devices), name))
    file = folder / f"{program.__name__}-{_DIGEST(name.encode()).hexdigest()}"
    with contextlib.suppress(Exception):  # any problem with the file: compile again
        if content := _read(file):
            executable, results = pickle.loads(zlib.decompress(content))
            trees = (jax.tree.structure(x) for x in ((arguments, {}), results))
            return serialize_executable.deserialize_and_load(
                executable, *trees, execution_devices=devices
            )
    compiled = program.lower(*arguments, **dict(static)).compile()
    with contextlib.suppress(NotImplementedError, ValueError):  # some devices do not support it
        executable, _, results = serialize_executable.serialize(compiled)
        content = pickle.dumps((executable, results.unflatten(range(results.num_leaves))))
        _write(file, zlib.compress(content, level=1))
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
