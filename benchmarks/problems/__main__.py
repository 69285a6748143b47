"""Build every problem and print its shape and the spread of its losses."""

from benchmarks.problems import PROBLEMS, halves, load_problem


def main() -> None:
    tuning, _ = halves()
    print(
        f"{'problem':20s} {'half':8s} {'rows':>6s} {'d':>4s} {'budget':>6s} {'zeros':>6s} {'cv':>6s} {'max/total':>9s}"
    )
    for name in PROBLEMS:
        problem = load_problem(name)
        n, d = problem.rows.shape
        losses = problem.losses
        half = "tuning" if name in tuning else "held out"
        zeros, spread, peak = (losses == 0).mean(), losses.std() / losses.mean(), losses.max() / losses.sum()
        print(f"{name:20s} {half:8s} {n:6d} {d:4d} {problem.budget:6d} {zeros:6.3f} {spread:6.2f} {peak:9.5f}")


if __name__ == "__main__":
    main()
