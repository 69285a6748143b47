"""Metrics by name."""

from __future__ import annotations

import re
from typing import Any

from coresift.checks import refuse
from coresift.evaluation.classification import F1, Accuracy, ModelDifference, Precision, Recall
from coresift.evaluation.metrics import Mean, Metric, Rate, Ratio, Total
from coresift.evaluation.quantiles import Quantile

METRICS: dict[str, type[Metric]] = {
    "mean": Mean,
    "total": Total,
    "rate": Rate,
    "ratio": Ratio,
    "median": Quantile,
    "accuracy": Accuracy,
    "precision": Precision,
    "recall": Recall,
    "f1": F1,
    "difference": ModelDifference,
}


def metric_of(metric: Any) -> Metric:
    """Return the metric with this name, or the metric itself.

    Examples:
        >>> metric_of("p95")
        Quantile(share=0.95)
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        if metric.lower() in METRICS:
            return METRICS[metric.lower()]()
        if match := re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", metric.lower()):
            return Quantile(float(match[1]) / 100)
    refuse("metric", f"one of {', '.join(METRICS)}, p95, or one of the metrics in cs.evaluation", repr(metric))
