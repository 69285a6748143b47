"""The report in a real browser: nothing of the data runs, nothing is requested, and everything works."""

from __future__ import annotations

import base64
import json
import re
import shutil

import hostile
import numpy as np
import pyarrow as pa
import pytest

import coresift as cs
from coresift.comparison import Comparison, Trial
from coresift.comparison.summary import summarize, verdicts
from coresift.demo import load_demo

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Watches what a script of the data would do, before any script of the page runs.
WATCH = "window.broken = 0; window.alert = window.prompt = window.confirm = () => { window.broken = 'a box'; };"


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs Playwright, of the dev extra")
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium package")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open a page; at the end there must have been no request, no message and no script but its own."""
    contexts, requests, messages = [], [], []

    def visit(path, width=1280, height=900, scheme="light"):
        size = {"width": width, "height": height}
        context = chromium.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(WATCH)
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_function("document.querySelector('#theme').hidden === false")
        return page

    yield visit
    for context in contexts:
        assert [page.evaluate("window.broken") for page in context.pages] == [0]
        context.close()
    others = [url for url in requests if not url.startswith(("file:", "data:"))]
    assert others == []
    assert messages == []


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory):
    data = load_demo()
    clustering = cs.cluster(data.embeddings, 50)
    picked = cs.select(data.embeddings, data.losses, 500, clusters=clustering)
    return cs.report(
        picked,
        tmp_path_factory.mktemp("demo") / "demo.html",
        rows=data.embeddings,
        clustering=clustering,
        losses=data.losses,
        table=pa.table({"text": data.texts.tolist(), "intent": data.intents.tolist()}),
        text="text",
        label="intent",
    )


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    rows, texts, ids, classes, losses = hostile.data()
    table = pa.table({"id": ids, "embedding": rows.tolist(), "text": texts, "class": classes})
    picked = cs.select(table, losses, budget=120, seed=1)
    path = tmp_path_factory.mktemp("hostile") / "hostile <b>&'.html"
    title = hostile.NASTY[1]
    return cs.report(picked, path, rows=table, losses=losses, text="text", label="class", title=title)


def facts(path):
    return json.loads(re.search(r'id="facts">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL).group(1))


def places(found):
    """Return where the listed rows stand on the map, from 0 to 1."""
    x, y = (np.frombuffer(base64.b64decode(found["map"][name]), "<u2") / 65_535 for name in "xy")
    return np.column_stack([x, y])


def at(page, place):
    """Return a place of the map in the window."""
    canvas = page.locator("#picture")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + box["width"] * place[0], box["y"] + box["height"] * place[1]


def lonely(points):
    """Return the listed row that is farthest from all others."""
    gaps = ((points[:, None] - points[None]) ** 2).sum(axis=2) + 9 * np.eye(len(points))
    return int(gaps.min(axis=1).argmax())


@pytest.mark.parametrize("which", ["demo_page", "hostile_page"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_point_click_and_sort(visit, request, which, scheme):
    path = request.getfixturevalue(which)
    page, found = visit(path, scheme=scheme), facts(path)
    points = places(found)
    row = lonely(points)
    page.mouse.move(*at(page, points[row]))
    shown = page.locator("#hint").text_content()
    weight = np.frombuffer(base64.b64decode(found["rows"]["weight"]), "<f4")[row]
    assert f"stands for {weight:.3g}" in shown
    number = str(int(np.frombuffer(base64.b64decode(found["rows"]["row"]), "<f8")[row]))
    words = found["texts"][number]
    assert words[:100] in shown
    page.mouse.click(*at(page, points[row]))
    cluster = np.frombuffer(base64.b64decode(found["rows"]["cluster"]), "<i4")[row]
    panel = page.locator("#map-panel")
    assert panel.locator(".name").text_content() == f"Cluster {cluster}"
    assert "Selected rows" in panel.text_content()
    page.mouse.move(*at(page, (0.001, 0.999)))
    body = page.locator("#cluster-table tbody tr")
    for key, title in (("selected", "Selected"), ("cost", "Cost")):
        page.locator(f"#cluster-table button[data-key={key}]").click()
        assert page.locator("#cluster-table th[aria-sort=descending]").text_content() == title
        first = page.evaluate("Number(document.querySelector('#cluster-table tbody button').textContent)")
        values = found["clusters"][key]
        assert values[found["clusters"]["number"].index(first)] == max(values)
        page.locator(f"#cluster-table button[data-key={key}]").click()
        first = page.evaluate("Number(document.querySelector('#cluster-table tbody button').textContent)")
        assert values[found["clusters"]["number"].index(first)] == min(values)
    assert body.count() == min(12, len(found["clusters"]["number"]))
    if page.locator("#more-clusters").is_visible():
        page.locator("#more-clusters").click()
    assert body.count() == len(found["clusters"]["number"])
    page.locator("#class-table button[data-key=name]").click()
    assert page.locator("#class-table tbody th").first.text_content() == min(found["classes"]["name"])
    body.first.locator("button").click()
    assert page.locator("#map-panel .name").text_content().startswith("Cluster ")


def test_the_title_of_a_hostile_page_is_words(visit, hostile_page):
    page = visit(hostile_page)
    assert page.locator("h1").text_content() == page.title() == hostile.NASTY[1]


def test_themes_follow_the_system_and_the_button(visit, demo_page):
    color = "getComputedStyle(document.body).backgroundColor"
    light, dark = (visit(demo_page, scheme=scheme) for scheme in ("light", "dark"))
    day, night = light.evaluate(color), dark.evaluate(color)
    assert day != night
    light.locator("#theme").click()
    dark.locator("#theme").click()
    assert (light.evaluate(color), dark.evaluate(color)) == (night, day)
    drawn = "document.querySelector('#picture').toDataURL()"
    before = light.evaluate(drawn)
    light.locator("#theme").click()
    light.wait_for_timeout(100)
    assert light.evaluate(drawn) != before


def test_everything_is_reached_by_keyboard(visit, demo_page):
    page, found = visit(demo_page), facts(demo_page)
    page.locator("#picture").focus()
    page.keyboard.press("ArrowRight")
    heaviest = str(int(np.frombuffer(base64.b64decode(found["rows"]["row"]), "<f8")[0]))
    assert found["texts"][heaviest] in page.locator("#hint").text_content()
    page.keyboard.press("Enter")
    assert page.locator("#map-panel .name").text_content().startswith("Cluster ")
    page.keyboard.press("Escape")
    assert page.locator("#map-panel .name").text_content() == "No cluster is chosen"
    reached, stops = set(), page.locator("a, button, [tabindex='0']").count()
    for _ in range(stops + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.key || ''"))
    assert {"closer", "farther", "whole", "size", "cost", "more-clusters", "more-classes"} <= reached


def test_zooming_moves_the_points_and_goes_back(visit, demo_page):
    page, found = visit(demo_page), facts(demo_page)
    points = places(found)
    row = int(((points - (0.5, 0.4)) ** 2).sum(axis=1).argmin())
    name = f"Row {np.frombuffer(base64.b64decode(found['rows']['row']), '<f8')[row]:,.0f}"
    page.locator("#closer").click()
    page.wait_for_timeout(60)
    page.mouse.move(*at(page, 0.5 + (points[row] - 0.5) * 1.6))
    assert name in page.locator("#hint").text_content()
    page.locator("#whole").click()
    page.wait_for_timeout(60)
    page.mouse.move(*at(page, points[row]))
    assert name in page.locator("#hint").text_content()


# ------------------------------------------------------------------ every kind of page, with hostile names

NASTY = [name[:80] for name in hostile.NASTY[:12]]


@pytest.fixture(scope="module")
def pages(tmp_path_factory, demo_page, hostile_page):
    """Return a page of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(8, 4))[rng.integers(8, size=300)] * 3 + rng.normal(size=(300, 4))).astype(np.float32)
    classes = np.array(NASTY, object)[rng.integers(len(NASTY), size=300)]
    table = pa.table({"text": classes.tolist(), "class": classes.tolist()})
    title = hostile.NASTY[2]
    cover = cs.report(
        cs.cover(rows, 20), folder / "cover.html", rows=rows, table=table, text="text", label="class", title=title
    )
    learning = cs.active_learning(rows, 130, rounds=2, audit=100, labels=classes)
    learning.complete()
    begun = cs.active_learning(rows, 40, rounds=2)
    begun.tell(begun.ask(), classes[begun.ask()])
    guesses = {name: np.where(rng.random(300) < 0.3, rng.permutation(classes), classes) for name in NASTY[:3]}
    evaluation = cs.evaluate(labels=classes, predictions=guesses, groups=classes, budget=150)
    evaluation.complete()
    single = cs.evaluate(labels=classes, predictions=guesses[NASTY[0]], budget=100)
    single.tell(single.ask(), classes[single.ask()])
    runs = {"learning": learning, "begun": begun, "evaluation": evaluation, "single": single}
    runs["comparison"] = made_up_comparison(rng)
    found = {name: cs.report(run, folder / f"{name}.html", title=title) for name, run in runs.items()}
    return {"selection": demo_page, "hostile": hostile_page, "cover": cover, **found}


def made_up_comparison(rng):
    """Return a comparison whose methods have hostile names, as `compare_methods` would have found it."""
    methods, budgets, seeds = tuple(NASTY[:4]), (50, 100, 200), (0, 1, 2)
    runs = [
        Trial(method, method, budget, seed, budget, 0, budget, 0.1, 1e8, error=float(rng.normal()), covered=True)
        for method in methods[:3]
        for budget in budgets
        for seed in seeds
    ]
    runs += [Trial(methods[3], methods[3], budget, 0, failure=hostile.NASTY[0]) for budget in budgets]
    lines = summarize(runs, methods, budgets, methods[0], lambda run: run.error and abs(run.error))
    best = verdicts(lines, runs, methods[0], lambda run: run.error and abs(run.error), False)
    numbers = {"rows": 300, "dimension": 4, "threads": 1, "total": 1.0, "confidence": 0.95}
    return Comparison(
        methods=methods, budgets=budgets, seeds=seeds, reference=methods[0], scored=False, higher=False, lines=lines,
        verdicts=best, runs=tuple(runs), **numbers,
    )  # fmt: skip


KINDS = ("selection", "hostile", "cover", "learning", "begun", "evaluation", "single", "comparison")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_every_kind_of_page_is_safe_and_accessible(visit, pages, kind, width, scheme):
    """No script of the data runs, nothing is requested (`visit`), and axe-core finds nothing serious."""
    page = visit(pages[kind], width=width, scheme=scheme)
    if kind not in ("selection", "hostile"):
        assert page.locator("h1").text_content() == page.title() == hostile.NASTY[2]
    for button in page.locator("button.more:visible").all():
        button.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert {"What to do next"} <= set(page.locator("h2").all_text_contents())
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core, of the dev extra")
    serious = [
        (found["id"], found["nodes"][0]["html"][:200])
        for found in axe.Axe().run(page).response["violations"]
        if found["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_representative_shows_what_it_stands_for(visit, pages):
    page, found = visit(pages["cover"]), facts(pages["cover"])
    page.locator("#cluster-table tbody button").first.click()
    largest = int(np.argmax(found["clusters"]["size"]))
    panel = page.locator("#map-panel")
    assert f"stands for {found['clusters']['size'][largest] - 1:.0f} other rows." in panel.text_content()
    assert panel.locator("li").count() == len(found["clusters"]["examples"][largest]) == 3


@pytest.mark.parametrize("which", ["demo_page", "hostile_page"])
def test_a_phone_has_no_sideways_scroll(visit, request, which):
    page = visit(request.getfixturevalue(which), width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#picture").bounding_box()["width"] > 300


def test_many_dots_answer_quickly(visit, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200_000, 3)).astype(np.float32)
    picked = cs.baselines.uniform(rows, 50_000)
    path = cs.report(picked, tmp_path / "many.html", rows=rows)
    assert path.stat().st_size < 2_500_000
    page = visit(path)
    page.locator("#picture").scroll_into_view_if_needed()
    slowest = page.evaluate(
        """() => {
          const canvas = document.querySelector("#picture"), box = canvas.getBoundingClientRect(), times = [];
          for (let i = 0; i < 50; i++) {
            const clientX = box.left + box.width * (0.2 + 0.6 * ((i * 37) % 50) / 50);
            const clientY = box.top + box.height * (0.2 + 0.6 * ((i * 17) % 50) / 50);
            const start = performance.now();
            canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
            if (document.querySelector("#hint").hidden) return -1;
            document.querySelector("#hint").getBoundingClientRect();
            times.push(performance.now() - start);
          }
          return times.sort((a, b) => a - b)[45];
        }"""
    )
    assert 0 <= slowest < 50
