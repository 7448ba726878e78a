"""What `pyproject.toml` cannot say: version and licence, from `package.xml`, and the files that ROS looks for."""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import Distribution, setup

PACKAGE = ElementTree.parse(Path(__file__).parent / "package.xml").getroot()
NAME = PACKAGE.findtext("name")


class ReadableByColcon(Distribution):
    """colcon prints what is read and evaluates that again, which fails for an object."""

    def parse_config_files(self, *args, **kwargs):
        """Read `pyproject.toml`."""
        super().parse_config_files(*args, **kwargs)
        self.python_requires = self.metadata.python_requires = str(self.python_requires)


setup(
    distclass=ReadableByColcon,
    version=PACKAGE.findtext("version"),
    license=PACKAGE.findtext("license"),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml", "README.md", "pyproject.toml"]),
    ],
)
