"""Five jobs done by coresift and by the tools that people use for them: quality, CPU time and memory side by side."""
