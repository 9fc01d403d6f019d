"""Watches files that are still being written: how far frames of them are whole."""
