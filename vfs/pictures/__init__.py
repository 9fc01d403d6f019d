"""Turns frames and results into pictures, for pages, terminals, notebooks and figures."""
