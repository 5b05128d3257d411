"""A wheel has the configs, finds them by name in any directory, and installs what it needs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SOURCES = (
    "flaxformer_mt",
    "configs",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel that is built from the sources."""
    directory = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, directory / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "out", "."]
    built = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if "No matching distribution" in built.stdout + built.stderr:
        pytest.skip("pip cannot get setuptools to build the wheel")
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = (directory / "out").glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel) -> Path:
    """The contents of the wheel."""
    directory = wheel.parent / "installed"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(directory)
    return directory


def test_every_config_is_in_the_wheel(installed):
    expected = sorted(path.name for path in (ROOT / "configs").glob("*.*"))
    there = sorted(path.name for path in (installed / "flaxformer_mt" / "configs").glob("*.*"))
    assert there == expected


def test_the_licence_is_in_the_wheel(installed):
    (licence,) = installed.glob("*.dist-info/licenses/LICENSE")
    assert licence.read_text(encoding="utf-8") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_an_empty_directory_finds_the_configs(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed)}

    def run(*command: str) -> str:
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    text = run("-m", "flaxformer_mt.train", "--config", "own_text", "--help")
    assert "(default: runs/own_text)" in text
    load = (
        "from flaxformer_mt.config import SHIPPED, load_config, load_variants\n"
        "print(SHIPPED, load_config('configs/demo.py') == load_config('demo'))\n"
        "print(len(load_variants('table_3', 'paper_variants')) > 9)\n"
    )
    assert run("-c", load).split() == [str(installed / "flaxformer_mt/configs"), "True", "True"]
    toy = ("--config", "toy_de_en", "--workdir", "toy", "--training.num-steps", "2")
    run("-m", "flaxformer_mt.train", *toy, "--training.checkpoint-every", "2")


def test_an_empty_environment_trains_and_translates(wheel, tmp_path):
    """The wheel's own requirements are enough."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = ("-m", "pip", "install", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    result = subprocess.run([python, *install], cwd=tmp_path, capture_output=True, text=True)
    if "No matching distribution" in result.stderr:
        pytest.skip("pip cannot get the requirements")
    assert result.returncode == 0, result.stderr
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(command: str, *arguments: str) -> str:
        return subprocess.run(
            [python, "-m", f"flaxformer_mt.{command}", "--workdir", "toy", *arguments],
            cwd=tmp_path,
            env=environment,
            check=True,
            input="ich mochte ein bier\n",
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    run("train", "--config", "toy_de_en")
    assert run("translate") == "i want a beer\n"
