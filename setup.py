"""Packs into a wheel what `course start FOLDER` lays out; all else of the package is said in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class BuildWithMaterial(build_py):
    """The build of the packages, and course/material.zip."""

    def run(self) -> None:
        """Build; an editable install has the course's own folder and needs no material."""
        super().run()
        if not self.editable_mode:
            sys.path.insert(0, str(HERE))
            from course.bundles.wheel import packed
            from course.folder import MATERIAL

            Path(self.build_lib, MATERIAL).write_bytes(packed(HERE))


setup(cmdclass={"build_py": BuildWithMaterial})
