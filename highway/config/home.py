"""The folders that belong to the code, beside it or inside an installed package: configurations, published records."""

from pathlib import Path

CODE = Path(__file__).parents[1]
SHIPPED = CODE / "shipped"  # setup.py puts copies here when it builds a wheel
HOME = SHIPPED if SHIPPED.is_dir() else CODE.parent
CONF = HOME / "conf"
REFERENCE = HOME / "outputs" / "reference"
