from vfs.formats import Format

FORMAT = Format("description", (".vfs.json",), "", "", lambda path, head: False, lambda paths: [])
