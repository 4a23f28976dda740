"""Put what runs and reports need besides code into the wheel: configurations, published records, the commit."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class WithShipped(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        shipped = Path(self.build_lib) / "highway" / "shipped"
        shutil.rmtree(shipped, ignore_errors=True)
        for name in ("conf", "example"):
            shutil.copytree(ROOT / name, shipped / name, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
        # reports can be rendered again from the records
        without = shutil.ignore_patterns("report")
        shutil.copytree(ROOT / "outputs" / "reference", shipped / "outputs" / "reference", ignore=without)
        (shipped / "COMMIT").write_text(_commit())


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


setup(cmdclass={"build_py": WithShipped})
