"""The folders that belong to the code, beside it or inside an installed package, and the folder of results."""

import os
from pathlib import Path

CODE = Path(__file__).parents[1]
SHIPPED = CODE / "shipped"  # setup.py puts copies here when it builds a wheel
HOME = SHIPPED if SHIPPED.is_dir() else CODE.parent
CONF = HOME / "conf"
REFERENCE = HOME / "outputs" / "reference"


def outputs_folder() -> Path:
    """Return the outputs folder, where no configuration is composed."""
    return Path(os.environ.get("HIGHWAY_OUTPUTS") or "outputs")
