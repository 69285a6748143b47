"""The same computations on a Ray cluster: row blocks as tasks, and functions that live in actors.

Nothing here is a second implementation: the block functions that threads run are sent to where the rows can be read.
Ray itself is an extra, imported when a cluster is first used.
"""

from coresift.remote.actors import Actors
from coresift.remote.blocks import Ray

__all__ = ["Actors", "Ray"]
