"""Helps to test vfs and formats made elsewhere: suites of checks, and writers of tiny valid files."""
