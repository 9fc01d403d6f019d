"""The page to look at data (`pages`, of the files in `site`), and what it asks for below `api/` (`api`): pictures
(`views`, `tiles`) and computations (`computing`), which are sent as `records`.
"""
