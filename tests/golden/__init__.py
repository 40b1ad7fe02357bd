"""
Golden stores: what a release has written, kept byte by byte. And rows that it has written into the database.

Each folder is named after the first release that wrote so, such as ``1.0``. Every later release of the same major
version must use its stores: load, save, list, search, check and move what is in them. And as long as the newest folder
is the newest way of writing, each release must write exactly that.

``contents.py`` has one of each kind of session, note, message, block and key, ``rows.py`` one of each kind of row. What
a later release writes besides is added there. Then the older folders lack it: have the tests ask each folder only for
what was written when it was made.

``python -m tests.golden 1.3`` makes a folder from what the present tree writes. A folder of a release is never changed:
what writes something else, even one more field, gets a new folder, and reads all of them.
"""
