from vfs.formats import Format

FORMAT = Format("mib", (".mib",), "", "", lambda path, head: False, lambda paths: [])
