"""A behaviour tree of LLM agent nodes that grows while it carries out household instructions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reactree_ros.episode.assembly import run as run


def __getattr__(name: str) -> Any:
    if name == "run":  # loads its dependencies on first use
        from reactree_ros.episode.assembly import run

        return run
    if name != "__version__":
        raise AttributeError(f"module 'reactree_ros' has no attribute '{name}'")
    from importlib import metadata
    from pathlib import Path
    from xml.etree import ElementTree

    manifest = Path(__file__).parents[1] / "package.xml"  # of a checkout; an installation has metadata instead
    version = ElementTree.parse(manifest).findtext("version") if manifest.exists() else None
    return version or metadata.version("reactree_ros")
