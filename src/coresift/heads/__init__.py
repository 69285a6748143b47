"""Small models on top of embeddings: logistic regression for classes, ridge regression for numbers.

Both choose their own regularization on the labels that they get, so that few labels and many work alike. Rows are moved
to their mean and divided by one number for all columns: distances keep their meaning, and nothing depends on the unit.
"""

from coresift.heads.logistic import PENALTIES, TEMPERATURES, LogisticHead
from coresift.heads.ridge import RIDGES, RidgeHead

__all__ = ["PENALTIES", "RIDGES", "TEMPERATURES", "LogisticHead", "RidgeHead"]
