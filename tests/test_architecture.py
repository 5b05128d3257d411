"""The layer rules of docs/architecture.md, checked on the syntax trees of the package."""

import ast
import functools
import graphlib
from pathlib import Path
from typing import get_args

import pytest

from flaxformer_mt.cli import COMMANDS
from flaxformer_mt.model.config import KernelChoice

PACKAGE = Path(__file__).parents[1] / "flaxformer_mt"
PACKAGES = {path.parent.name for path in PACKAGE.glob("*/*.py")}
LAYERS = (  # each imports those before it only
    "storage",
    "data",
    "runtime",
    "model",
    "kernels",
    "search",
    "evaluation",
    "config",  # no package: see `layer_of`
    "checkpoints",
    "inference",
    "translation",
    "training",
    "inspection",
    "interop",
    "planning",
)
DRAWERS = {"utils", "util", "common", "core", "helpers", "base", "lib", "misc"}


def module_name(path: Path) -> str:
    """model/masks.py -> flaxformer_mt.model.masks; model/__init__.py -> flaxformer_mt.model"""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def under_type_checking(tree: ast.AST) -> set[ast.AST]:
    """Returns the nodes that only a type checker reads: no import at run time."""
    return {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test).endswith("TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }


@functools.cache
def imports(module: str, *, typing_too: bool = False) -> frozenset[str]:
    """Returns the full dotted names of all imports of a module, also inside functions."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    skipped = set() if typing_too else under_type_checking(tree)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in skipped:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in skipped:
            assert node.level == 0, f"{module}: imports are absolute here"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in MODULES else base)
    return frozenset(found)


def modules_of(package: str) -> list[str]:
    return [module for module in MODULES if module.split(".")[1:2] == [package]]


def starts_with(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def layer_of(module: str) -> str:
    """Returns the layer of a module; "" for a command, and for a module that is not ours.

    The layer "config" has `flaxformer_mt.config` and the settings that it composes: the module
    `config` of each package that is above this layer.
    """
    ours, package, *rest = *module.split("."), "", ""
    if ours != "flaxformer_mt" or package not in LAYERS:
        return ""
    above = LAYERS.index(package) > LAYERS.index("config")
    return "config" if above and rest[:1] == ["config"] else package


def test_every_package_has_a_layer_and_an_introduction() -> None:
    assert {*LAYERS} == PACKAGES | {"config"}
    for path in PACKAGE.rglob("*.py"):
        assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_imports_point_downwards() -> None:
    found = set()
    for module in MODULES:
        for name in imports(module, typing_too=True):
            here, there = layer_of(module), layer_of(name)
            if here and there and LAYERS.index(there) > LAYERS.index(here):
                found.add((module, name))
    assert not found


def test_data_is_numpy_only() -> None:
    below = ("flaxformer_mt.data", "flaxformer_mt.storage")
    for module in modules_of("data") + modules_of("storage"):
        for name in imports(module, typing_too=True):
            assert not starts_with(name, "jax", "flax", "optax", "orbax"), f"{module}: {name}"
            ours = not starts_with(name, "flaxformer_mt") or starts_with(name, *below)
            assert ours, f"{module} imports {name}"


def test_the_model_knows_no_text_data_or_device() -> None:
    for module in modules_of("model"):
        for name in imports(module, typing_too=True):
            if starts_with(name, "flaxformer_mt"):
                assert starts_with(name, "flaxformer_mt.model"), f"{module} imports {name}"


def test_the_search_knows_no_model() -> None:
    for module in modules_of("search"):
        for name in imports(module, typing_too=True):
            known = starts_with(name, "flaxformer_mt.model", "flaxformer_mt.data")
            assert not known, f"{module} imports {name}"


def test_kernels_of_a_device_are_imported_by_their_name_alone() -> None:
    """`choose_kernels` does it, so everything works without the package of a device."""
    sets = [f"flaxformer_mt.kernels.{name}" for name in get_args(KernelChoice)]
    for module in MODULES:
        for name in imports(module):
            own = any(starts_with(module, kernels) for kernels in sets)
            assert own or not starts_with(name, *sets), f"{module} imports {name}"


def test_no_import_cycle() -> None:
    # The package's __init__ imports its public names only when they are used.
    graph = {m: {n for n in imports(m) if n in MODULES} for m in MODULES if m != "flaxformer_mt"}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}")


def test_no_package_imports_a_command() -> None:
    commands = [f"flaxformer_mt.{name}" for name in (*COMMANDS, "cli", "config_arguments")]
    for package in PACKAGES:
        for module in modules_of(package):
            for name in imports(module, typing_too=True):
                assert not starts_with(name, *commands), f"{module} imports {name}"


def test_no_package_has_a_meaningless_name() -> None:
    for module in MODULES:
        assert not DRAWERS & set(module.split(".")), f"{module}: name it after its subject"
