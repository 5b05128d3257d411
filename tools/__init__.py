"""Programs for maintainers. They are no part of the installed package."""
