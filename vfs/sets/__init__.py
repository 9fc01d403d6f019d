"""Opens data sets: finds their files and arrays, and arranges these as the options say."""
