"""Every table and figure of the paper, one command each: `python -m repro NAME`; `--list` shows the names."""
