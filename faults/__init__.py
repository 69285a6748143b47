"""A campaign of kills, damaged files and hostile input against coresift: `python -m faults --help`."""
