"""The settings of the web book; `course book` copies them beside the pages that it makes."""

import os
import re
from importlib import metadata

project = "NanoLM"
author = "the NanoLM authors"
project_copyright = "the NanoLM authors, Apache-2.0"
try:
    release = metadata.version("nanolm-course")
except metadata.PackageNotFoundError:
    release = ""

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_static", "_templates"]
templates_path = ["_templates"]

# Notebooks come with what their cells put out; nothing is run here.
nb_execution_mode = "off"
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Formulas are drawn by MathJax from the book's own folder.
mathjax_path = "mathjax.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": True}}

# Docstrings are plain text in which `name` is code.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "NanoLM"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
if os.environ.get("NANOLM_REPOSITORY"):
    html_theme_options["footer_icons"] = [
        {"name": "Repository", "url": os.environ["NANOLM_REPOSITORY"], "html": "repository", "class": ""}
    ]


def setup(app):
    """Let docstrings be the plain text that they are: only `name` has a meaning in them."""
    app.connect("autodoc-process-docstring", _plain, priority=100)  # before napoleon reads its sections


def _plain(app, what, name, obj, options, lines):
    for number, line in enumerate(lines):
        line = re.sub(r"^(\s+)((?:\w+, )+\w+)(?=: )", lambda found: found[0].replace(", ", ","), line)  # one entry
        parts = re.split(r"(`[^`]*`)", line)
        escaped = [
            part if part.startswith("`") else re.sub(r"[*|\\]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts
        ]
        lines[number] = "".join(escaped)
