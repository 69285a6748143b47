"""Coresift and other tools on five jobs: quality, CPU time and memory."""
