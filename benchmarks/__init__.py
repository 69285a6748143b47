"""Studies of error, speed and memory; each is a command that writes to results/."""
