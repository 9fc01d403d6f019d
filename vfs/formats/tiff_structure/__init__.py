"""How TIFF files are built, for the formats that are TIFF: headers, pages, pages that are alike."""
