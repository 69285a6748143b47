"""Engines that run row blocks, in threads or on a Ray cluster, and actors that spread model calls over a cluster."""

from coresift.engine import Local
from coresift.remote import Actors, Ray

__all__ = ["Actors", "Local", "Ray"]
