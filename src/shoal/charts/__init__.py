"""Charts without a plotting library: shapes on a page, drawn as an SVG or a PNG."""
