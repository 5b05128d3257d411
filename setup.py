"""Copies configs/ into a wheel as flaxformer_mt/configs, where `--config NAME` finds them."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConfigs(build_py):
    """An editable installation needs no copy: it finds configs/ beside the package."""

    def run(self) -> None:
        """Builds the package, and adds the configs."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "flaxformer_mt", "configs")
        self.mkpath(str(target))
        for file in sorted((*Path("configs").glob("*.py"), *Path("configs").glob("*.tsv"))):
            self.copy_file(str(file), str(target / file.name))


setup(cmdclass={"build_py": BuildWithConfigs})
