"""The same computations on a Ray cluster: row blocks as tasks, and functions in actors.

The cluster runs the same block functions as the threads do, on the nodes that read the rows. Ray itself is an extra,
imported when a cluster is first used.
"""

from coresift.remote.actors import Actors
from coresift.remote.blocks import Ray

__all__ = ["Actors", "Ray"]
