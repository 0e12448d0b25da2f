"""Sphinx's configuration; `make docs` builds the site into build/docs."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import reference  # noqa: E402  # because it lies in this folder

project = "tenferro"
author = "The tenferro authors"
copyright = "The tenferro authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "tenferro"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["../llms.txt"]
html_copy_source = False
html_show_sourcelink = False
exclude_patterns = ["generated/README.md"]
pygments_style = "default"

reference.write(HERE / "generated")
