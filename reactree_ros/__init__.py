"""Household instructions carried out by a behaviour tree of LLM agent nodes that grows while it runs."""


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'reactree_ros' has no attribute '{name}'")
    from importlib import metadata
    from pathlib import Path
    from xml.etree import ElementTree

    manifest = Path(__file__).parents[1] / "package.xml"  # of a checkout; what is installed has its metadata
    version = ElementTree.parse(manifest).findtext("version") if manifest.exists() else None
    return version or metadata.version("reactree_ros")
