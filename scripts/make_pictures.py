"""Make the pictures of README and docs, headless, light and dark: report pages in Chromium, and the demo's terminal.

    python scripts/make_pictures.py [FOLDER [WIDTH]]     (by default docs/pictures and 1040; needs Chromium, playwright)

Look at them before you commit them, at another width, too.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

import coresift as cs
from coresift.cli import app
from coresift.demo import load_demo

WIDTH = 1040
MARGIN = 12
COLUMNS = 92
LIGHT = TerminalTheme((255, 255, 255), (36, 41, 47), [(36, 41, 47)] * 8, [(36, 41, 47)] * 8)
THEMES = {"light": LIGHT, "dark": DIMMED_MONOKAI}
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: {background}; }}
pre {{ margin: 0; padding: 18px 22px; font: min(15px, 1.7vw)/1.45 "DejaVu Sans Mono", monospace; display: inline-block;
  color: {foreground}; }}
</style><pre id="shot">{code}</pre>"""


def main() -> None:
    """Write the pages into a folder of their own, and take the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures")
    width = int(sys.argv[2]) if len(sys.argv) > 2 else WIDTH
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        terminal = demo(Path(work) / "map.html")
        for name, (make, where) in PAGES.items():
            page = Path(work) / f"{name}.html"
            make(page)
            for scheme in THEMES:
                take(browser, page, where, folder / f"{name}-{scheme}.png", scheme, width)
        for scheme, theme in THEMES.items():
            page = Path(work) / f"terminal-{scheme}.html"
            page.write_text(terminal_page(terminal, theme), encoding="utf-8")
            take(browser, page, "#shot", folder / f"terminal-{scheme}.png", scheme, width)
        browser.close()


def demo(page: Path) -> str:
    """Run the demo; return what it prints of its first job."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        app(["demo", "--out", str(page)], standalone_mode=False)
    return "$ coresift demo\n" + printed.getvalue().partition("\n2. ")[0].rstrip()


def terminal_page(words: str, theme: TerminalTheme) -> str:
    """Return a page that shows a terminal."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in words.splitlines():
        strong = line.startswith(("$", "1. "))
        console.print(Text(line, style="bold" if strong else ""))
    code = console.export_html(theme=theme, code_format="{code}", inline_styles=True)
    return TERMINAL.format(code=code, foreground=theme.foreground_color.hex, background=theme.background_color.hex)


def learning(page: Path) -> None:
    """A run of active learning with audits."""
    data = load_demo()
    run = cs.active_learning(data.embeddings, budget=1_000, rounds=8, audit=400, labels=data.intents)
    run.complete()
    cs.report(run, page)


def evaluation(page: Path) -> None:
    """An evaluation of a model that learned from 800 questions."""
    from coresift.heads import LogisticHead  # noqa: PLC0415

    data = load_demo()
    known, rest = np.split(np.random.default_rng(0).permutation(len(data.intents)), [800])
    model = LogisticHead().fit(data.embeddings[known], data.intents[known])
    signals = cs.signals.from_probabilities(model.predict_proba(data.embeddings[rest]))
    predicted = model.predict(data.embeddings[rest])
    run = cs.evaluate(labels=data.intents[rest], predictions=predicted, signals=signals, within=0.02)
    run.complete()
    cs.report(run, page)


def cover(page: Path) -> None:
    """200 questions that cover the others, those about cards first."""
    data = load_demo()
    cards = np.flatnonzero(["card" in intent for intent in data.intents])
    near = cs.signals.near(data.embeddings, data.embeddings[np.random.default_rng(1).choice(cards, 20, replace=False)])
    cs.report(cs.cover(data.embeddings, 200, importance=near, normalize=True), page, rows=data.embeddings)


def regression(page: Path) -> None:
    """A fit on 60 of 442 patients beside the fit on all."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415
    from sklearn.linear_model import LinearRegression  # noqa: PLC0415

    features, outcome = load_diabetes(return_X_y=True)
    score = cs.scores.LeverageMixture()
    chosen = cs.regression.select(features, lambda rows: outcome[rows], budget=60, score=score, seed=0)
    known, guess = LinearRegression().fit(features, outcome).predict(features), chosen.fit().predict(features)
    page.write_text(scatter(known, guess, chosen.selection.ids), encoding="utf-8")


def scatter(known: np.ndarray, guess: np.ndarray, labeled: np.ndarray) -> str:
    """Return a page with both predictions of every row; the labeled ones are filled."""
    low, high = min(known.min(), guess.min()), max(known.max(), guess.max())

    def place(value: float) -> float:
        return 400 * (value - low) / (high - low)

    dots = "".join(
        f'<circle cx="{60 + place(x):.1f}" cy="{420 - place(y):.1f}" r="{5 if row in set(labeled) else 3}" '
        f'class="{"labeled" if row in set(labeled) else "other"}"/>'
        for row, (x, y) in enumerate(zip(known, guess, strict=True))
    )
    ticks = "".join(
        f'<text x="{60 + place(t):.0f}" y="442" text-anchor="middle">{t}</text>'
        f'<text x="52" y="{425 - place(t):.0f}" text-anchor="end">{t}</text>'
        for t in range(int(np.ceil(low / 50)) * 50, int(high) + 1, 50)
    )
    return f"""<!doctype html><meta charset="utf-8"><style>
:root {{ --paper: #fff; --ink: #24292f; --dot: #0f766e; --far: #9aa4ad; }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #14181c; --ink: #d7dde3; --dot: #2dd4bf; --far: #66717b; }} }}
body {{ margin: 12px; background: var(--paper); }}
svg {{ max-width: 100%; height: auto; }}
text {{ font: 13px system-ui, sans-serif; fill: var(--ink); }}
.other {{ fill: none; stroke: var(--far); }} .labeled {{ fill: var(--dot); }} path {{ stroke: var(--ink); fill: none; }}
</style><svg id="shot" width="640" height="490" viewBox="0 0 640 490">
<path d="M60 20V420H460M60 420L460 20"/>{dots}{ticks}
<text x="260" y="470" text-anchor="middle">predicted by the fit on all 442 labels</text>
<text transform="translate(16 220) rotate(-90)" text-anchor="middle">predicted by the fit on 60 labels</text>
<circle cx="486" cy="40" r="5" class="labeled"/><text x="498" y="45">labeled (60)</text>
<circle cx="486" cy="64" r="3" class="other"/><text x="498" y="69">not labeled (382)</text></svg>"""


def peers(page: Path) -> None:
    """Coresift and other tools on five jobs."""
    plot = (Path(__file__).parent.parent / "benchmarks" / "results" / "peers.svg").read_text(encoding="utf-8")
    style = "body { margin: 12px; background: #fff; } svg { max-width: 100%; height: auto; }"
    style += "@media (prefers-color-scheme: dark) { body { background: #14181c; } }"
    page.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style><div id="shot">{plot}</div>', "utf-8")


# What makes the page (the demo has made the first one already), and the part of it that is shown.
PAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "map": (lambda page: page.stat(), "#picture >> xpath=.."),
    "label": (learning, "figure.narrow >> nth=0"),
    "training": (cover, "#picture >> xpath=.."),
    "evaluating": (evaluation, "figure.narrow >> nth=0"),
    "regression": (regression, "#shot"),
    "peers": (peers, "#shot svg"),
}


def take(browser: Browser, page: Path, where: str, out: Path, scheme: str, width: int) -> None:
    """Take a picture of a part of a page as it is shown in one color scheme and at one width."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_timeout(500)
    box = tab.locator(where).bounding_box()
    assert box is not None
    left, top = max(box["x"] - MARGIN, 0), max(box["y"] - MARGIN, 0)
    clip = {"x": left, "y": top, "width": min(box["width"] + 2 * MARGIN, width - left)}
    tab.screenshot(path=out, clip=clip | {"height": box["height"] + 2 * MARGIN}, full_page=True)
    tab.close()
    print(f"Wrote {out} ({out.stat().st_size / 1000:.0f} KB)")


if __name__ == "__main__":
    main()
