"""What tests of vfs and of formats made elsewhere use: writers of tiny valid files, one a format."""
