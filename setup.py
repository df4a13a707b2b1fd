"""What pyproject.toml cannot say: the wheel also holds the pages of docs/ and a py.typed marker."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildPackages(build_py):
    """Build the packages, then add what has no file of its own in the package's folder."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # a checkout has docs/, and type checkers read its sources
        package = Path(self.build_lib) / "torch_max_backend"
        (package / "py.typed").touch()
        # Where `python -m torch_max_backend docs` looks for them (tools/cli/docs.py).
        pages = package / "tools" / "cli" / "pages"
        shutil.rmtree(pages, ignore_errors=True)  # a page that was renamed since the last build
        pages.mkdir()
        for page in sorted(Path("docs").glob("*.md")):
            shutil.copy2(page, pages)


setup(cmdclass={"build_py": BuildPackages})
