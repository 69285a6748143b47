"""All tools by job: functions of (data, budget, seed) that return arrays by name.

Each runs in a process of its own (`benchmarks.peers.child`), which may belong to another environment, so nothing is
imported at the top of these modules but numpy. Tools are used as their documentation shows, with their defaults; what
differs is said in the function.
"""

from __future__ import annotations

from benchmarks.peers import labeling
from benchmarks.peers.estimating import EVALUATE, SUMMARIZE
from benchmarks.peers.geometry import CLUSTER, COVER
from benchmarks.peers.shared import Tool

JOBS: dict[str, dict[str, Tool]] = {
    "label": labeling.TOOLS,
    "evaluate": EVALUATE,
    "summarize": SUMMARIZE,
    "cover": COVER,
    "cluster": CLUSTER,
}
# These cover the same rows with every seed, so they run once.
FIXED = ("apricot", "coreax, herding", "semhash")
