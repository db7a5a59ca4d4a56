"""The documentation as a site: `make docs-site`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ctr_samples import __version__

project = "ctr-samples"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["pictures"]

html_theme = "furo"
html_title = f"ctr-samples {__version__}"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False

myst_heading_anchors = 4  # links to headings, as on code hosting sites
myst_enable_extensions = ["colon_fence"]
nitpicky = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["tensorflow", "keras"]  # the readers are described without them
