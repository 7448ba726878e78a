"""How Sphinx builds these pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "figures")]

import generate  # noqa: E402
import method  # noqa: E402
import trained  # noqa: E402

from reactree_ros import __version__  # noqa: E402

project = "reactree_ros"
author = "reactree_ros developers"
release = version = __version__

generate.write(HERE / "reference/generated")
method.write(HERE / "figures/method.svg")
trained.write(HERE / "figures")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "reference/generated"]
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"
autodoc_class_signature = "mixed"
napoleon_use_ivar = True

# What docstrings name has to be here, but for what other packages have, and for those of our modules that are left out.
nitpick_ignore_regex = [
    ("py:.*", r"(?!reactree_ros\.).*"),
    ("py:.*", r"reactree_ros\.(memory|routine\.model)\..*|reactree_ros\.agent\.control_flow\.C"),
    ("py:.*", r"reactree_(ros\.agent\.prompt|lab\.bench\.published|ros\.record\.writer)\..*"),
    ("py:.*", r"reactree_ros\.tree\.(context|failure|goal|growth|listener|options|team)\..*"),
    ("py:.*", r"reactree_ros\.(agent\.reading\.read|episode\.Builder|background\.\w+\.T|plugins\.S|world\.spec\.T)"),
    ("py:.*", r"reactree_ros\.tree\.asking\.T"),
    ("py:.*", r"reactree_ros\.agent\.(budget|kinds\.expand|notation|reading\.\w+|subgoal_grammar)\..*"),
    ("py:.*", r"reactree_ros\.(plugins\.installation|world\.skill_policy)\..*|reactree_ros\.world\.spec\.Place"),
    ("py:.*", r"reactree_ros\.(household\.tasks\..*|person\.desk\.Open)"),
]

smartquotes = False  # two dashes are those of an option
pygments_dark_style = "monokai"
html_theme = "furo"
html_show_copyright = False
html_title = "reactree_ros"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
