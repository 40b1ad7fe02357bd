"""Pictures of every page that people see: ``make gallery``. See ``__main__``."""
