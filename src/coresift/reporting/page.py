"""The second half of a report: facts become one HTML page that needs nothing else and loads nothing.

Texts of users are either escaped in the markup (`sections`) or in a block of JSON (`payload`), from which the script
sets them as text. The page's content security policy allows its one style and its one script, by their digests, and no
requests.
"""

from __future__ import annotations

from coresift.reporting.document import document, read_file
from coresift.reporting.facts import Facts
from coresift.reporting.payload import data_of, fitting_words, safe_json
from coresift.reporting.sections import sections

# The largest size of a page in bytes: texts and images are added as long as they fit.
LIMIT = 2_000_000


def as_page(facts: Facts, limit: int = LIMIT) -> str:
    """Return the page; texts and images that would exceed `limit` bytes are left out, small weights first."""
    style = read_file("page.css") + read_file("pictures.css")
    script = read_file("theme.js") + read_file("page.js")
    body = "\n".join(part for part in sections(facts) if part)
    frame = _frame(facts, style, script, body)
    data = data_of(facts)
    room = limit - len((frame % safe_json(data)).encode()) - 200
    texts, images, fitting = fitting_words(facts, room)
    data |= {"texts": texts, "images": images, "cut": not fitting}
    return frame % safe_json(data)


def _frame(facts: Facts, style: str, script: str, body: str) -> str:
    before = document(facts.title, style, body, script).replace("%", "%%")
    after = f"<script>{script}</script>\n</body>\n</html>\n".replace("%", "%%")
    return f'{before}\n<script type="application/json" id="facts">%s</script>\n{after}'
