"""
The whole shop under traffic, while a week of operations happens to it: ``make soak``.

``traffic`` has the clicks, ``visitor`` makes them, ``ledger`` knows what each answer may be, ``shop`` is what runs,
``operations`` and ``support`` are what happens meanwhile, ``gauges`` measure processes, ``run`` puts it together.
"""
