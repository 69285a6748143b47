"""Training on a selection: weighted epochs estimate the gradient on all rows, and real (small) trainings run."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import torch
import transformers
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from tiny_models import sentences, tiny_bert, tiny_gpt2, tiny_t5, words_tokenizer

import coresift as cs
from coresift import models
from coresift.checks import InputError

N, D = 400, 5
RNG = np.random.default_rng(0)
INPUTS = (RNG.normal(size=(N, D)) + 2 * RNG.integers(2, size=(N, 1))).astype(np.float32)
CLASSES = (INPUTS[:, 0] + INPUTS[:, 1] > 1).astype(np.int64)
DATA = torch.utils.data.TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(CLASSES))


def pick(seed=0, budget=60, **options):
    return cs.select(INPUTS, lambda ids: np.abs(INPUTS[ids, 0]), budget=budget, seed=seed, **options)


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(D, 2)


def gradient(model, inputs, labels, weights=None):
    """The gradient of the mean of weight times loss, as one vector."""
    losses = torch.nn.functional.cross_entropy(model(inputs), labels, reduction="none")
    value = losses.mean() if weights is None else (losses * weights).mean()
    return torch.cat([part.flatten() for part in torch.autograd.grad(value, list(model.parameters()))]).numpy()


def epoch_gradient(model, picked, batch):
    """The mean gradient over the batches of one epoch over the weighted subset, each batch by its share of rows."""
    loader = torch.utils.data.DataLoader(models.subset(DATA, picked), batch, shuffle=True, collate_fn=models.weighing())
    total = 0
    for inputs, labels, weights in loader:
        total = total + len(labels) * gradient(model, inputs, labels, weights)
    return total / len(picked)


# What is expected


def test_a_weighted_epochs_gradient_is_the_weighted_sum_over_all_rows():
    model, picked = linear(), pick()
    alone = np.array([gradient(model, *(part[row : row + 1] for part in DATA.tensors)) for row in picked.ids])
    assert np.allclose(epoch_gradient(model, picked, 8), (picked.weights @ alone) / N, atol=1e-6)


def test_a_weighted_epochs_expected_gradient_is_that_of_the_full_data():
    """Hotelling's test over 200 seeds; a false alarm once in 10,000 runs, and always the same seeds."""
    model = linear()
    full = gradient(model, *DATA.tensors)
    clusters = cs.cluster(INPUTS, 6)
    found = np.array([epoch_gradient(model, pick(seed, clusters=clusters), 60) for seed in range(200)])
    # The two classes' gradients are each other's negative, so half of the numbers say it all.
    half = [0, 1, 2, 3, 4, 10]
    gap, spread = (found - full)[:, half].mean(0), np.cov(found[:, half].T)
    hotelling = 200 * gap @ np.linalg.solve(spread, gap)
    assert stats.f.sf(hotelling * (200 - 6) / (6 * 199), 6, 200 - 6) > 1e-4
    # Unweighted, the selection leans to large losses: the same test must see that.
    plain = np.array([gradient(model, *DATA[pick(seed, clusters=clusters).ids.tolist()]) for seed in range(200)])
    gap, spread = (plain - full)[:, half].mean(0), np.cov(plain[:, half].T)
    assert stats.f.sf(200 * gap @ np.linalg.solve(spread, gap) * (200 - 6) / (6 * 199), 6, 200 - 6) < 1e-4


def test_the_sampler_draws_places_by_their_weights():
    picked = pick()
    sampler = models.weighted_sampler(picked, 100_000, seed=3)
    counts = np.bincount(list(sampler), minlength=len(picked))
    expected = 100_000 * picked.weights / picked.weights.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    assert np.isclose(sampler.scale, picked.weights.sum() / N)
    again = models.weighted_sampler(picked, 100, seed=3)
    assert list(again) == list(models.weighted_sampler(picked, 100, seed=3))
    assert len(models.weighted_sampler(picked)) == len(picked)


def test_unweighted_subsets_are_torchs_own():
    picked = pick()
    plain = models.subset(DATA, picked, weighted=False)
    assert type(plain) is torch.utils.data.Subset
    assert torch.equal(plain[3][0], DATA[picked.ids[3]][0])
    chosen = models.subset(DATA, picked)
    (inputs, label), weight = chosen[3]
    assert torch.equal(inputs, DATA[picked.ids[3]][0])
    assert label == DATA[picked.ids[3]][1]
    assert np.isclose(weight, picked.weights[3] * len(picked) / N)
    items = [({"x": torch.tensor(1.0)}, torch.tensor(2.0)), ({"x": torch.tensor(3.0)}, torch.tensor(4.0))]
    batch = models.weighing()(items)
    assert batch["x"].tolist() == [1, 3]
    assert batch["weight"].tolist() == [2, 4]


def test_what_does_not_fit_is_refused():
    picked = pick()
    few = torch.utils.data.TensorDataset(torch.zeros(3, 1))
    for call in (lambda: models.subset(few, picked), lambda: models.fit(Ridge(), INPUTS[:3], CLASSES, picked)):
        with pytest.raises(InputError, match=f"the {N} rows"):
            call()
    unweighted = cs.baselines.k_center(INPUTS, 20)
    for call in (
        lambda: models.subset(DATA, unweighted),
        lambda: models.weighted_sampler(unweighted),
        lambda: models.fit(Ridge(), INPUTS, CLASSES, unweighted),
    ):
        with pytest.raises(InputError, match=r"has none; use weighted=False \(with a sampler: none\)\.$"):
            call()
    with pytest.raises(InputError, match="sample_weight"):
        models.fit(KNeighborsClassifier(), INPUTS, CLASSES, picked)
    with pytest.raises(InputError, match="weights must be"):
        models.Selected(DATA, [1, 2], [1.0])
    with pytest.raises(InputError, match="does not have yet"):
        models.select_dataset(datasets.Dataset.from_dict({"weight": [0.0] * N}), picked)


# Real trainings


@pytest.mark.parametrize("sampled", [True, False])
def test_a_torch_training_on_a_selection_learns(sampled):
    """With the sampler, and with weights in the loss."""
    picked, model = pick(budget=100), linear()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    if sampled:
        sampler = models.weighted_sampler(picked)
        loader = torch.utils.data.DataLoader(models.subset(DATA, picked, weighted=False), 10, sampler=sampler)
    else:
        loader = torch.utils.data.DataLoader(
            models.subset(DATA, picked), 10, shuffle=True, collate_fn=models.weighing()
        )
    for _ in range(20):
        for inputs, labels, *weights in loader:
            losses = torch.nn.functional.cross_entropy(model(inputs), labels, reduction="none")
            value = (losses * weights[0]).mean() if weights else losses.mean() * sampler.scale
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    right = (model(DATA.tensors[0]).argmax(1) == DATA.tensors[1]).float().mean()
    assert right > 0.93


def test_sklearn_gets_the_weights_and_fits():
    picked = pick(budget=100)
    fitted = models.fit(LogisticRegression(), INPUTS, CLASSES, picked)
    twin = LogisticRegression().fit(INPUTS[picked.ids], CLASSES[picked.ids], sample_weight=picked.weights)
    plain = LogisticRegression().fit(INPUTS[picked.ids], CLASSES[picked.ids])
    assert np.array_equal(fitted.coef_, twin.coef_)
    assert np.array_equal(models.fit(LogisticRegression(), INPUTS, CLASSES, picked, weighted=False).coef_, plain.coef_)
    assert not np.array_equal(fitted.coef_, plain.coef_)
    assert fitted.score(INPUTS, CLASSES) > 0.93


def test_fit_resample_is_select():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(INPUTS, columns=list("abcde"))
    sampler = clone(models.Resampler(budget=50, losses=lambda X, y: np.abs(np.asarray(X)[:, 0]), seed=4, by_class=True))
    few, labels = sampler.fit_resample(table, CLASSES)
    twin = cs.select(INPUTS, np.abs(INPUTS[:, 0]), 50, 4, strata=CLASSES)
    assert sampler.selection_ == twin
    assert np.array_equal(few.to_numpy(), INPUTS[twin.ids])
    assert np.array_equal(labels, CLASSES[twin.ids])
    assert np.array_equal(sampler.sample_indices_, twin.ids)
    assert np.array_equal(sampler.sample_weight_, twin.weights)
    LogisticRegression().fit(few, labels, sample_weight=sampler.sample_weight_)
    assert sampler.set_params(budget=20).get_params()["budget"] == 20
    with pytest.raises(InputError, match="params must be"):
        sampler.set_params(size=3)


TEXTS = [text + " w1" for text in sentences(N)]  # of one token nothing can be predicted
LABELS = [int(text.split()[0] < "m") for text in TEXTS]


def tokenized(model, tokenizer):
    tokens = tokenizer(TEXTS)["input_ids"]
    if isinstance(model, transformers.T5ForConditionalGeneration | transformers.GPT2LMHeadModel):
        return datasets.Dataset.from_dict({"input_ids": tokens, "labels": tokens})
    return datasets.Dataset.from_dict({"input_ids": tokens, "labels": LABELS})


def collator(model, tokenizer):
    if isinstance(model, transformers.BertForSequenceClassification):
        return transformers.DataCollatorWithPadding(tokenizer)
    return transformers.DataCollatorForSeq2Seq(tokenizer, padding=True)


def trainer(tmp_path, model, data, **options):
    tokenizer = words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", eos_token="[SEP]")
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        **options,
    )
    made = models.weighted_trainer()
    return made(model=model, args=arguments, train_dataset=data, data_collator=collator(model, tokenizer))


@pytest.mark.parametrize("make", [tiny_bert, tiny_gpt2, tiny_t5])
def test_the_trainers_loss_is_the_mean_of_weight_times_row_loss(tmp_path, make):
    model = make()
    tokenizer = words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", eos_token="[SEP]")
    data, picked = tokenized(model, tokenizer), pick()
    chosen = models.select_dataset(data, picked)
    assert chosen["input_ids"][7] == data["input_ids"][picked.ids[7]]
    assert np.allclose(chosen["weight"], picked.weights * len(picked) / N)
    run = trainer(tmp_path, model, chosen, per_device_train_batch_size=16)
    batch = next(iter(run.get_train_dataloader()))
    assert "weight" in batch
    model.eval()
    with torch.no_grad():
        found = run.compute_loss(model, batch).item()
        weights, alone = batch.pop("weight"), []
        for row in range(16):
            single = {name: values[row : row + 1] for name, values in batch.items()}
            alone.append(model(**single).loss.item())
    assert np.isclose(found, np.mean(weights.numpy() * alone), atol=1e-5)
    assert np.isclose(run.compute_loss(model, batch).item(), np.mean(alone), atol=1e-5)


def test_a_trainer_with_weights_trains_and_evaluates(tmp_path):
    model = tiny_bert(classes=2)
    tokenizer = words_tokenizer(pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    data, picked = tokenized(model, tokenizer), pick(budget=200)
    options = {"per_device_train_batch_size": 20, "num_train_epochs": 8, "learning_rate": 5e-3, "seed": 1}
    run = trainer(tmp_path, model, models.select_dataset(data, picked), **options)
    before = run.evaluate(data)["eval_loss"]
    run.train()
    assert run.evaluate(data)["eval_loss"] < 0.7 * before


def test_accumulated_batches_weigh_as_much_as_whole_ones(tmp_path):
    """Two steps of eight rows, accumulated, are one step of sixteen: plain gradient descent shows the gradient."""
    moved = []
    for rows, steps in ((16, 1), (8, 2)):
        model = tiny_bert(classes=2)
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        data = models.select_dataset(tokenized(model, words_tokenizer(pad_token="[PAD]")), pick(budget=16))
        options = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": steps, "max_steps": 1}
        options |= {
            "optim": "sgd",
            "learning_rate": 0.1,
            "max_grad_norm": 0.0,
            "seed": 1,
            "lr_scheduler_type": "constant",
        }
        run = trainer(tmp_path, model, data, **options)
        run.train()
        moved.append(torch.cat([part.detach().flatten() for part in model.parameters()]))
    assert torch.allclose(*moved, atol=1e-6)
    assert not torch.equal(moved[0], torch.cat([part.detach().flatten() for part in tiny_bert(2).parameters()]))


# Recipes


def fit_network(ids, weights):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    factor = torch.ones(len(ids)) if weights is None else torch.as_tensor(weights * len(ids) / N, dtype=torch.float32)
    for _ in range(60):
        optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(model(DATA.tensors[0][ids]), DATA.tensors[1][ids], reduction="none")
        (losses * factor).mean().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("weighted", [True, False])
def test_the_image_recipe_spends_what_it_says(weighted):
    asked, trained = [], []

    def train(ids, weights):
        trained.append((ids, weights))
        return fit_network(ids, weights)

    def losses(model):
        loss = models.classifier_loss(model, DATA)
        return lambda ids: asked.append(ids) or loss(ids)

    found = models.image_recipe(
        N, 50, train=train, embed=lambda model: models.last_layer(model, DATA), losses=losses, weighted=weighted
    )
    (warm, none), (ids, weights) = trained
    assert warm.size == 10
    assert none is None
    assert np.isin(warm, found.selection.ids).all()
    assert np.array_equal(ids, found.selection.ids)
    assert ids.size == 50
    assert (weights is not None) == weighted
    calls = np.concatenate(asked)
    assert calls.size == 10
    assert np.isin(calls, ids).all()
    costs = found.costs
    assert (costs.labels, costs.model_calls, costs.embedding_passes, costs.trainings) == (50, 10, 1.0, 2)
    assert "Sensitivity" in found.selection.provenance.lines()["score"]
    assert (found.model(DATA.tensors[0]).argmax(1) == DATA.tensors[1]).float().mean() > 0.9
    with pytest.raises(InputError, match=f"at most the {N} rows"):
        models.image_recipe(N, N + 1, train=train, embed=lambda model: INPUTS, losses=losses)
    with pytest.raises(InputError, match=f"returns {N} rows"):
        models.image_recipe(N, 50, train=train, embed=lambda model: INPUTS[:9], losses=losses)


def test_the_image_recipe_takes_other_parts():
    found = models.image_recipe(
        N,
        50,
        train=fit_network,
        embed=lambda model: INPUTS,
        losses=lambda model: models.classifier_loss(model, DATA),
        pilot=cs.pilots.Representatives(),
        score=cs.scores.Learned(),
        design=cs.designs.Systematic(),
        seed=3,
    )
    assert "Learned" in found.selection.provenance.lines()["score"]
    assert len(found.selection) == 50


def test_the_fine_tuning_recipe_is_embed_select_and_tune():
    loss = models.classifier_loss(linear(), DATA)
    found = models.fine_tuning_recipe(60, embed=lambda: INPUTS, losses=loss, fine_tune=fit_network, seed=2)
    assert found.selection == cs.select(INPUTS, loss, 60, 2)
    assert (found.costs.labels, found.costs.model_calls, found.costs.trainings) == (60, found.selection.ledger.asked, 1)
    paper = models.fine_tuning_recipe(
        60,
        embed=lambda: INPUTS,
        losses=loss,
        fine_tune=fit_network,
        clusters=6,
        pilot=cs.pilots.Centers(keep=False),
        score=cs.scores.Sensitivity(holder=0.1),
        design=cs.designs.Pivotal(),
    )
    assert paper.costs.model_calls == 6
    centers = cs.cluster(INPUTS, 6).centers
    assert paper.costs.labels == np.union1d(centers, paper.selection.ids).size
