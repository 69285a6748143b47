"""Small models on top of embeddings: logistic regression for classes, ridge regression for numbers.

Both choose their own regularization from the labels, so they work with few labels and with many. Rows are centered and
divided by one number for all columns, so relative distances are preserved and results do not depend on units.
"""

from coresift.heads.logistic import PENALTIES, TEMPERATURES, LogisticHead
from coresift.heads.ridge import RIDGES, RidgeHead

__all__ = ["PENALTIES", "RIDGES", "TEMPERATURES", "LogisticHead", "RidgeHead"]
