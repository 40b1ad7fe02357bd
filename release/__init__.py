"""
Make a release that anybody can build again, bit for bit: ``make release VERSION=1.0`` and ``make dist``.

``python -m release --help`` and ``python -m release.dist --help`` say what they do. No wheel has this package.
"""
