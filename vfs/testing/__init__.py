"""Helps to test vfs and formats of other packages: suites of checks, and writers of tiny valid files."""
