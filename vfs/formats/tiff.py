from vfs.formats import Format

FORMAT = Format("tiff", (".tif",), "", "", lambda path, head: False, lambda paths: [])
