"""All tools by job: functions of (data, budget, seed) that return arrays by name.

Each tool runs in its own process (`benchmarks.peers.child`), which may belong to another environment, so these modules
import only numpy at the top. Tools are used as their documentation shows, with default options; functions mention
differences.
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
# These choose the same rows with every seed, so they run once.
FIXED = ("apricot", "coreax, herding", "semhash")
