"""Parts that a site may add. Nothing outside this package imports it, and its members do not import each other."""
