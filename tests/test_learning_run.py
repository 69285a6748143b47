"""A run of active learning: asked, told, corrected, killed and opened again, it comes to the same batches."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import coresift as cs
from coresift.checks import AnswerError
from coresift.heads import LogisticHead, RidgeHead
from coresift.learning import LearningRun


def problem(n=400, d=5, k=6, seed=0):
    """Classes of very unequal size, in clusters."""
    rng = np.random.default_rng(seed)
    shares = 0.7 ** np.arange(k)
    codes = rng.choice(k, n, p=shares / shares.sum())
    rows = 3 * rng.normal(size=(k, d))[codes] + rng.normal(size=(n, d))
    return rows.astype(np.float32), np.array([f"class {code}" for code in codes], object)


def batches(run, labels, most=99):
    """Answer batch after batch; return them."""
    asked = []
    while len(asked) < most and (ids := run.ask()).size:
        asked.append(ids.tolist())
        run.tell(ids, labels[ids])
    return asked


def flat(batches):
    return [row for batch in batches for row in batch]


@pytest.mark.slow
def test_all_rounds_by_a_callable_are_those_by_hand():
    rows, labels = problem()
    by_hand = cs.active_learning(rows, 60, rounds=3)
    asked = batches(by_hand, labels)
    assert [len(batch) for batch in asked] == [12, 24, 24]
    run = cs.active_learning(rows, 60, rounds=3, labels=lambda ids: labels[ids])
    selection = run.complete()
    assert selection == by_hand.result == run.result
    assert isinstance(selection, cs.Selection)
    assert selection.ids[np.argsort(selection.order)].tolist() == flat(asked)
    assert selection.rounds[np.argsort(selection.order)].tolist() == [1] * 12 + [2] * 24 + [3] * 24
    assert selection.labels == tuple(labels[selection.ids])
    assert selection.ledger.entries == ((1, "coverage", 12), (2, "uncertainty", 24), (3, "uncertainty", 24))
    assert run.rounds.tolist() == [1] * 12 + [2] * 24 + [3] * 24
    assert selection.provenance.job == "active_learning"
    assert cs.active_learning(rows, 60, rounds=3, labels=labels).complete() == selection
    assert cs.active_learning(rows, 60, rounds=3, labels=labels, seed=1).complete() != selection


@pytest.mark.slow
def test_the_model_and_the_labels_are_those_so_far():
    rows, labels = problem()
    run = cs.active_learning(rows, 60, rounds=3)
    assert run.model is None
    ids = run.ask()
    run.tell(ids[:7], labels[ids[:7]])
    assert run.labels == {row: labels[row] for row in ids[:7].tolist()}
    assert set(run.model.classes_) == set(labels[ids[:7]])
    assert "round 1: 5 labels to come" in repr(run)
    batches(run, labels)
    expected = LogisticHead(cautious=True).fit(rows[list(run.labels)], list(run.labels.values()))
    np.testing.assert_array_equal(run.model.predict_proba(rows), expected.predict_proba(rows))
    assert run.model is run.model


def test_audits_are_about_the_model_before_them_and_follow_corrections():
    rows, labels = problem(600)
    run = cs.active_learning(rows, 200, rounds=2, audit=60)
    asked = batches(run, labels)
    (audit,) = run.audits
    known = flat(asked[:-1])
    model = LogisticHead().fit(rows[known], list(labels[known]))
    truth = (model.predict(rows) == labels).mean()
    assert audit.trained_on == 140
    assert audit.low <= truth <= audit.high
    assert run.ledger.entries[-1] == (2, "audit", 60)
    wrong = asked[-1][:30]
    run.tell(wrong, ["class 0" if labels[row] != "class 0" else "class 1" for row in wrong], correct=True)
    assert run.audits[0].value < audit.value - 0.2
    run.tell(wrong, labels[wrong], correct=True)
    assert run.audits == (audit,)


def test_an_audit_that_nearly_everybody_skipped_is_none():
    rows, labels = problem()
    run = cs.active_learning(rows, 100, rounds=1, audit=50)
    run.tell(run.ask(), labels[run.ask()])
    audited = run.ask()
    run.tell(audited, [labels[row] if place < 5 else None for place, row in enumerate(audited)])
    assert run.finished
    assert run.audits == ()


@pytest.mark.slow
def test_a_run_is_opened_again_by_its_state_file(tmp_path):
    rows, labels = problem()
    whole = batches(cs.active_learning(rows, 60, rounds=3), labels)
    state = tmp_path / "run.state"
    for number, batch in enumerate(whole):
        with cs.active_learning(rows, 60, rounds=3, state=state) as run:
            assert run.ask().tolist() == batch
            if number == 1:  # half of it, in another order
                run.tell(batch[::-2], labels[batch[::-2]])
        with cs.active_learning(rows, 60, rounds=3, state=state) as run:
            run.tell(run.ask(), labels[run.ask()])
    with cs.active_learning(rows, 60, rounds=3, state=state) as run:
        assert run.finished
        assert run.result == cs.active_learning(rows, 60, rounds=3, labels=labels).complete()
    with pytest.raises(cs.InputError, match=r"run\.state"):
        cs.active_learning(rows, 60, rounds=4, state=state)


def test_the_state_file_of_another_run_is_refused_at_the_call(tmp_path):
    rows, _ = problem(100)
    state = tmp_path / "run.state"
    cs.active_learning(rows, 20, rounds=2, state=state).close()
    with pytest.raises(
        cs.InputError, match=r"run\.state belongs to another run \(budget: '20' then, '30' now; batches: "
    ):
        cs.active_learning(rows, 30, rounds=2, state=state)
    with pytest.raises(cs.InputError, match=r"belongs to another run \(rows: other embeddings now\)"):
        cs.active_learning(rows + 1, 20, rounds=2, state=state)
    assert "round 1: 4 labels to come" in repr(cs.active_learning(rows, 20, rounds=2, state=state))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_a_correction_counts_from_the_next_batch_on_and_nothing_is_asked_twice(tmp_path, kept):
    rows, labels = problem()
    state = tmp_path / "run.state" if kept else None
    run = cs.active_learning(rows, 80, rounds=4, state=state)
    wrong = labels.copy()
    wrong[:] = "class 0"
    first, second = batches(run, wrong, 2)
    run.tell(run.ask()[:4], labels[run.ask()[:4]])  # in the middle of a batch
    both = first + second
    run.tell(both, labels[both], correct=True)
    rest = batches(run, labels)
    assert len(set(both + flat(rest))) + 4 == 80
    assert run.labels == {row: labels[row] for row in run.labels}
    uncorrected = cs.active_learning(rows, 80, rounds=4)
    batches(uncorrected, wrong, 2)
    later = batches(uncorrected, labels)
    assert later[0][4:] == rest[0]  # the batch was chosen before the correction
    assert later[1] != rest[1]
    if kept:
        result = run.result
        run.close()
        with cs.active_learning(rows, 80, rounds=4, state=state) as again:
            assert again.asked.tolist() == run_asked(both, result)
            assert again.result == result


def run_asked(both, result):
    """The rows in the order in which they were asked, of which `both` were the first."""
    asked = result.ids[np.argsort(result.order)].tolist()
    assert asked[: len(both)] == both
    return asked


def test_skipped_rows_do_not_teach_and_are_not_asked_again():
    rows, labels = problem()
    run = cs.active_learning(rows, 60, rounds=3, labels=lambda ids: [None if row % 3 else labels[row] for row in ids])
    selection = run.complete()
    assert len(selection) == 60
    assert [label is None for label in selection.labels] == [bool(row % 3) for row in selection.ids]
    assert len(run.labels) == sum(label is not None for label in selection.labels)
    skipped = next(row for row, label in zip(selection.ids, selection.labels, strict=True) if label is None)
    run.tell([skipped], [labels[skipped]], correct=True)
    assert run.labels[int(skipped)] == labels[skipped]
    assert labels[skipped] in run.model.classes_


def test_given_labels_teach_come_out_and_cost_nothing():
    rows, labels = problem()
    given = {row: labels[row] for row in range(0, 400, 20)}
    run = cs.active_learning(rows, 30, rounds=2, given=given, labels=labels, exclude=[1, 2])
    selection = run.complete()
    assert run.status().asked == 30
    assert len(selection) == 50
    assert selection.rounds[selection.origin == 0].tolist() == [0] * 20
    assert set(given) <= set(selection.ids)
    assert not {1, 2} & set(selection.ids.tolist())
    assert selection.population == 398
    assert run.labels == {row: labels[row] for row in selection.ids.tolist()}
    more = cs.active_learning(rows, 10, rounds=1, given=run.labels, labels=labels)
    assert len(more.complete()) == 60


def test_numbers_have_a_ridge_regression_and_may_be_skipped(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4))
    y = rows @ np.arange(4.0) + 0.1 * rng.normal(size=500)
    with cs.active_learning(rows, 120, rounds=2, numeric=True, audit=50, state=tmp_path / "state") as run:
        ids = run.ask()
        run.tell(ids, [None, *map(str, y[ids[1:]])])
        batches(run, y)
        assert isinstance(run.model, RidgeHead)
        assert len(run.labels) == 119
        (audit,) = run.audits
        assert audit.what.startswith("mean squared error")
        assert 0 < audit.value < 0.1
        with pytest.raises(AnswerError, match="answers must be finite numbers, or None if nobody can tell; row"):
            run.tell(ids[1:2], ["much"], correct=True)


def test_classes_come_as_text_from_files_and_are_what_was_given(tmp_path):
    rows, _ = problem(100)
    (tmp_path / "labels.csv").write_text("row,label\n" + "".join(f"{row},{row % 3}\n" for row in range(100)))
    run = cs.active_learning(rows, 20, rounds=2, classes=np.arange(3), labels=tmp_path / "labels.csv")
    selection = run.complete()
    assert selection.labels == tuple(int(row) % 3 for row in selection.ids)
    assert run.model.classes_.tolist() == [0, 1, 2]


def test_own_probabilities_as_a_list_that_grows():
    rows, labels = problem(k=3)
    names = ["class 0", "class 1", "class 2"]
    arrays = []
    run = cs.active_learning(rows, 60, rounds=3, probabilities=arrays, classes=names)
    for _ in range(2):
        run.tell(run.ask(), labels[run.ask()])
        with pytest.raises(cs.InputError, match="probabilities must be an array for each round after the first"):
            run.ask()
        known = run.labels
        arrays.append(LogisticHead().fit(rows[list(known)], list(known.values())).predict_proba(rows))
    run.tell(run.ask(), labels[run.ask()])
    assert len(arrays) == 2
    assert run.model is None
    assert len(run.result) == 60


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("kind", [str, int, float, bool, "mixed"])
def test_files_keep_labels_and_rounds(tmp_path, suffix, kind):
    rows, _ = problem(100)

    def label(row):
        if row % 5 == 0:
            return None
        return (f"say {row % 2}" if row % 3 else row % 2) if kind == "mixed" else kind(row % 2)

    selection = cs.active_learning(rows, 20, rounds=2, labels=lambda ids: [label(int(row)) for row in ids]).complete()
    loaded = cs.load(cs.save(selection, tmp_path / f"labeled{suffix}"))
    assert loaded == selection
    assert loaded.labels == selection.labels
    assert loaded.rounds.tolist() == selection.rounds.tolist()


# ------------------------------------------------------------------ what is refused


def begun(**options):
    rows, _ = problem(100)
    return cs.active_learning(rows, 20, **{"rounds": 2, **options})


def test_what_cannot_be_told_is_one_sentence_each():
    run = begun(classes=["a", "b"])
    ids = run.ask()
    other = next(row for row in range(100) if row not in ids)
    for rows, labels, sentence in [
        ([other], ["a"], f"ids must be rows that were asked and are not answered yet; row {other} is not."),
        (
            ids[:1],
            ["c"],
            "answers must be one of the 2 classes (a, b), or None if nobody can tell; "
            f"row {ids[0]} has 'c' (unusable in 1 of 1 rows).",
        ),
        (ids[[0, 0]], ["a", "b"], f"answers must be one per row; row {ids[0]} has 'a' and 'b'."),
        (ids, ["a"], f"labels must be one label for each of {ids.size} rows; got shape (1,)."),
    ]:
        with pytest.raises((cs.InputError, AnswerError)) as error:
            run.tell(rows, labels)
        assert str(error.value) == sentence
    run.tell(ids[:1], ["a"])
    run.tell(ids[:1], ["a"])
    with pytest.raises(cs.InputError) as error:
        run.tell(ids[:1], ["b"])
    assert str(error.value) == f"Row {ids[0]} already has the answer 'a'; to replace it by 'b', use correct=True."
    run.tell(ids[1:3], ["a", None])
    with pytest.raises(cs.InputError) as error:
        run.tell(ids[:3], [None, "b", "a"])
    assert str(error.value) == (
        f"3 rows already have another answer: row {ids[0]} had 'a', now no label; row {ids[1]} had 'a', now 'b'; "
        f"row {ids[2]} had no label, now 'a' (to replace them, use correct=True)."
    )
    assert run.answers == {int(ids[0]): "a", int(ids[1]): "a", int(ids[2]): None}
    run.tell(ids[:1], ["b"], correct=True)
    assert run.labels == {int(ids[0]): "b", int(ids[1]): "a"}
    with pytest.raises(AnswerError, match=r"^The run has no result yet: 1 answer must come first\.$"):
        run.result  # noqa: B018
    with pytest.raises(cs.InputError, match="complete needs a callable of row numbers, an array of labels"):
        run.complete()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes": "ab"}, "classes must be a list of classes; got 'ab'"),
        ({"classes": [1, "1"]}, "classes must be at least one class, all of them distinct"),
        ({"classes": [], "budget": 3}, "classes must be at least one class, all of them distinct"),
        ({"classes": ["a"], "numeric": True}, "classes and numeric exclude each other"),
        ({"given": ["a"]}, "given must be a mapping from row numbers or ids to labels; got list"),
        ({"given": {"x": "a"}}, "given must be row numbers, because the rows have no ids; got ids"),
        ({"given": {3: ""}}, "given must be non-empty text, or numbers, or None .* row 3 has ''"),
        ({"given": {3: "z"}, "classes": ["a"]}, r"given must be one of the 1 classes \(a\), or None .* row 3 has 'z'"),
        ({"given": {300: "z"}}, "given must be row numbers from 0 to 99"),
        ({"state": 3}, "state must be the path of a file; got 3"),
        ({"labels": ["a"]}, "labels"),
    ],
)
def test_bad_arguments_are_refused(options, sentence):
    rows, _ = problem(100)
    with pytest.raises((cs.InputError, AnswerError), match=sentence):
        cs.active_learning(rows, **{"budget": 20, **options}).complete()


# ------------------------------------------------------------------ killed


def label_until_done(rows, labels, state):
    """What a person does: open the run, and tell labels in small parts, one of them wrong at first."""
    with cs.active_learning(rows, 40, rounds=4, state=state, progress=False) as run:
        wrong = [row for row, label in run.labels.items() if label != labels[row]]  # killed before it was corrected
        run.tell(wrong, labels[wrong], correct=True)
        while (ids := run.ask()).size:
            part = ids[:3]
            row = int(part[0])
            run.tell(part, labels[part] if row % 4 else ["class 0", *labels[part[1:]]])
            if row % 4 == 0:
                run.tell([row], [labels[row]], correct=True)


def killed(rows, labels, state, seconds):
    """Do that in a process that is killed after so many seconds; say whether it was."""
    child = os.fork()
    if child == 0:
        try:
            label_until_done(rows, labels, state)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def check_kills(tmp_path, seeds):
    rows, labels = problem(150)
    labels = labels.astype(object)
    plain = tmp_path / "plain.state"
    begin = time.perf_counter()
    label_until_done(rows, labels, plain)
    lasts = time.perf_counter() - begin
    kills = 0
    for seed in seeds:
        rng, state = np.random.default_rng([seed, 41]), tmp_path / f"{seed}.state"
        told = 0
        for _ in range(4):
            kills += killed(rows, labels, state, lasts * rng.uniform(0.05, 0.9))
            now = state.read_text().count('"answers"') if state.exists() else 0
            assert now >= told  # no label that was told is lost
            told = now
        label_until_done(rows, labels, state)
        with (
            cs.active_learning(rows, 40, rounds=4, state=plain) as one,
            cs.active_learning(rows, 40, rounds=4, state=state) as other,
        ):
            assert isinstance(other, LearningRun)
            assert one.asked.tolist() == other.asked.tolist()
            assert other.labels == {row: labels[row] for row in one.asked.tolist()} == one.labels
            assert one.result == other.result
    assert kills


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that can be killed at any moment are forked")
def test_a_killed_run_comes_to_the_same_batches(tmp_path):
    check_kills(tmp_path, range(2))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that can be killed at any moment are forked")
def test_a_run_killed_at_fifty_moments_comes_to_the_same_batches(tmp_path):
    check_kills(tmp_path, range(2, 15))


def test_a_long_label_takes_its_own_room():
    rows = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    run = cs.active_learning(rows, 20, rounds=2)
    first = run.ask()
    run.tell(first, ["x" * 300_000, *["a", "b"] * 10][: first.size])  # for every row, 24 GB as an array of texts
    assert run.ask().size == 20 - first.size


@pytest.mark.parametrize("number", [1e61, -1e308, 10**400])
def test_numbers_that_are_too_large_to_learn_are_refused(number):
    run = cs.active_learning(np.arange(60.0).reshape(30, 2), 8, rounds=2, numeric=True)
    first = run.ask()
    with pytest.raises(AnswerError, match=r"must be finite numbers"):
        run.tell(first, [number] * first.size)
