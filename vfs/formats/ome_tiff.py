from vfs.formats import Format

FORMAT = Format("ome_tiff", (".ome.tif",), "", "", lambda path, head: False, lambda paths: [])
