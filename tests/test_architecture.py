"""The four walls of docs/architecture.md, held over the syntax trees of the package."""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "flaxformer_mt"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/*.py")}
VERBS = {
    "train",
    "translate",
    "score",
    "evaluate",
    "average",
    "calibrate",
    "convert",
    "summary",
    "plan",
    "sweep",
    "attention_maps",
}
DRAWERS = {"utils", "util", "common", "core", "helpers", "base", "lib", "misc"}


def module_name(path: Path) -> str:
    """data/batch.py -> flaxformer_mt.data.batch; a room's __init__.py -> flaxformer_mt.data"""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def under_type_checking(tree: ast.AST) -> set[ast.AST]:
    """Nodes that only a type checker reads: no import at run time."""
    return {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test).endswith("TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }


@functools.cache
def imports(module: str, *, typing_too: bool = False) -> frozenset[str]:
    """What a module imports, anywhere in it (in functions too), by full dotted names."""
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


def in_room(room: str) -> list[str]:
    return [module for module in MODULES if module.split(".")[1:2] == [room]]


def starts_with(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_the_rooms_are_found() -> None:
    assert {"data", "model", "training", "decoding"} <= ROOMS
    for room in ROOMS:
        assert f"flaxformer_mt.{room}" in MODULES, f"{room} has no __init__.py to introduce it"


def test_wall_1_data_never_imports_jax() -> None:
    for module in in_room("data"):
        for name in imports(module, typing_too=True):
            assert not starts_with(name, "jax", "flax", "optax", "orbax"), f"{module}: {name}"
            ours = not starts_with(name, "flaxformer_mt") or starts_with(name, "flaxformer_mt.data")
            assert ours, f"{module} leaves its room for {name}"


def test_wall_2_model_imports_nothing_of_ours() -> None:
    for module in in_room("model"):
        for name in imports(module, typing_too=True):
            if starts_with(name, "flaxformer_mt"):
                assert starts_with(name, "flaxformer_mt.model"), f"{module} imports {name}"


def test_wall_3_only_the_translator_joins_search_model_and_text() -> None:
    # Its own parts with it: on the side of text, and on that of the model.
    parts = (
        *("translator", "segments", "word_ends", "requests", "results", "checks"),
        *("programs", "ensemble"),
    )
    translator = {f"flaxformer_mt.decoding.{part}" for part in parts}
    for module in in_room("decoding"):
        if module not in translator:
            for name in imports(module, typing_too=True):
                outside = starts_with(name, "flaxformer_mt.model", "flaxformer_mt.data")
                assert not outside, f"{module} imports {name}"


def test_wall_4_no_import_cycle() -> None:
    # The package's own __init__ is a table of contents, which imports nothing by itself.
    graph = {m: {n for n in imports(m) if n in MODULES} for m in MODULES if m != "flaxformer_mt"}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}")


def test_wall_4_no_verb_is_imported_by_a_room() -> None:
    verbs = [f"flaxformer_mt.{verb}" for verb in VERBS] + ["flaxformer_mt.cli"]
    for room in ROOMS:
        for module in in_room(room):
            for name in imports(module, typing_too=True):
                assert not starts_with(name, *verbs), f"{module} imports {name}"


def test_wall_4_no_drawers() -> None:
    for module in MODULES:
        assert not DRAWERS & set(module.split(".")), f"{module}: what is it about?"
