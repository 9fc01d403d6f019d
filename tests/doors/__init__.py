"""Opens sets in the tools that people have open, which `scripts/test --doors` installs. Elsewhere these tests skip."""
