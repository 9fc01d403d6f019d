"""The ways in: `open`, `open_group`, `show`, `mount`, `serve`; the way out: `export`; what opening returns:
`VirtualArray`, `VirtualGroup`; `guess_nav_shape`. `vfs` loads the module of each when it is first asked for.

Options, formats, backends and the hierarchy are put together here. What does the work:

- `vfs.sets.opening`: from files and options to arrays that can be read;
- `vfs.folder_tree.plans`: what a mount or server is to show;
- `vfs.model.signatures`: puts the options, which are fields of
  `vfs.model.open_options.OpenOptions`, into the signatures here.
"""
