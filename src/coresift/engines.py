"""What runs the row blocks: threads on this machine, or a Ray cluster; and model calls spread over a cluster."""

from coresift.engine import Local
from coresift.remote import Actors, Ray

__all__ = ["Actors", "Local", "Ray"]
