"""
The tests of other packages, run beside this one: ``make test-neighbours``.

Each package's tests are run with the session engine that its tests have, with ours, and with ours and its middleware.
What counts are the differences. ``packages.toml`` says which packages, ``docs/reference/works-with.json`` has what
came out.
"""
