"""Find words that the field does not use in everything that users read.

python -m tests.vocabulary                   lists the findings, then their number for each package
python -m tests.vocabulary src/soar/attacks  the same for some files and folders
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soar.cli.main import make_parser

ROOT = Path(__file__).parents[1]
SOURCE = "src/soar"
GENERATED = "docs/results/reproduce"
"""pages that are made from the texts of the source"""

PEOPLE = (
    "adversary|anyone|attacker|authors?|contributors?|engineers?|others|people|readers?|someone|those|users?"
)
UNIT = (
    "channel|check|class|core|corner|epoch|example|file|image|job|kind|layer|line|module|network|parameter|pass|"
    "pixel|process|query|row|run|side|step|update"
)
COUNTED = (
    r"bits|bytes?|checks?|directions|entr(?:y|ies)|files?|gradients?|images|keys?|labels|lines?|ms|"
    r"numbers?|one|pass(?:es)?|predictions?|process|quer(?:y|ies)|rows?|seconds?|starts|steps|tensors?|things?|"
    r"threads?|\d+(?: s)?"
)
IZED = (
    "author|categor|character|custom|discret|emphas|equal|factor|final|general|harmon|initial|linear|local|maxim|"
    "memor|minim|neutral|normal|optim|organ|parallel|parameter|penal|quant|random|real|recogn|regular|serial|"
    "special|stabil|standard|summar|symbol|synchron|token|util|vector|visual"
)

BRITISH = {
    rf"\b(?:{IZED})is(?:e[ds]?|ing|ers?)\b|\b\w{{3,}}isations?\b": "-ize, -ization",
    r"\b(?:re)?analys(?:e|ed|ing)\b": "analyze",
    r"\b(?:arm|behavi|col|endeav|fav|flav|harb|hon|hum|lab|neighb|rum|vap)our\w*": "-or",
    r"\b(?:cancel|channel|label|level|model|signal|total|travel|tunnel)l(?:ed|ing|er)\b": "a single l",
    r"\b(?:defence|licence|offence|pretence)s?\b": "-ense",
    r"\b(?:calib|cent|fib|lit|met|theat)re[ds]?\b|\bcentring\b": "-er",
    r"\bgr[e]y\w*\b": "gray",
    r"\b(?:ageing|artefacts?|catalogues?|judgements?|learnt|maths|moulds?|practise|programmes?|spelt)\b": (
        "artifact, catalog, judgment, program"
    ),
    r"\b(?:amongst|towards|whilst|afterwards|fulfil)\b": "among, toward, while, afterward, fulfill",
    r"\bper cent\b|\d %": "percent, 95%",
}

UNIDIOMATIC = {
    r"\bslopes?\b": "gradient",
    r"\bsaid\b|\b(?:model|network|softmax|classifier)s? says?\b": "predicted, predictions",
    r"\b(?:model|network|classifier)(?:'s)? (?:clean )?answers?\b": "outputs, predictions",
    r"\banswers? of (?:a|the) (?:model|network)\b": "outputs, predictions",
    r"\b(?:model|network|classifier) (?:is|was|be) asked\b": "evaluated, queried",
    r"\b(?:stay(?:s|ed)?|is|are|was|were|be|ha[sd]|have|gets?|counts? as) right\b(?! (?:after|away|side))": (
        "correctly classified, robust"
    ),
    r"\bright (?:answers?|examples?|images?|ones|predictions?)\b": "correct, correctly classified",
    r"\b(?:image|example|one|that|which)s? (?:is|are|was|were) wrong\b": "misclassified",
    r"\bwrong (?:already|anyway|from the start)\b|\bclassified (?:right|wrong)\b": "misclassified",
    rf"\b(?:{COUNTED}) an? (?:{UNIT})\b": "per",
    rf"\b(?!(?:{PEOPLE})\b)\w+,? who\b|\bwho (?:stay\w*|survive\w*)\b|\bwhom\b": "which, that",
    r"\b(?:any|every|no|some)body\b|\bwhoever\b": "the user, the caller, another process",
    r"\bpictures?\b": "image, figure",
    r"\bmirror(?:ed|s| images?)\b": "flip",
    r"\bdata sets?\b": "dataset",
    r"\btrainings\b": "training runs",
    r"\ba training(?= (?:by|can|costs?|from|goes|has|is|of|takes|that|was|which|will|with)\b|[.,;:)])": (
        "a training run"
    ),
    r"\bpass(?:es)? (?:for|back)wards?\b|\bforwards and backwards\b": "forward and backward passes",
    r"\bways? of the data\b|\bthe way of\b": "data flow, path",
    r"\bgravest\b": "worst, most severe",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bfor the while\b": "meanwhile",
    r"\bstrangers?\b": "someone else, untrusted",
}

OPENERS = r"(?:Give|Name|Say|Tell)\b"
"""words that begin no docstring: a function returns, computes or checks"""

WORDS = [
    (re.compile(one.replace(" ", " +"), re.IGNORECASE), use) for one, use in (BRITISH | UNIDIOMATIC).items()
]
FENCE = re.compile(r"^[ \t]*(```+)(\w*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``.+?``|`[^`]+`|\]\([^)]*\)|https?://\S+|^\s*(?:>>>|\.\.\.) .*$", re.MULTILINE)
REMARKS = re.compile(r'""".*?"""|(?<!\S)#[^\n]*', re.DOTALL)


@dataclass(frozen=True)
class Text:
    """A text that users read: where its first line is, and whether it is a docstring."""

    path: str
    line: int
    words: str
    is_docstring: bool = False

    def findings(self) -> Iterator[str]:
        """Yield a line for each word that should be another one."""
        # Of the same length, so that a finding is where the file has it; no phrase spans paragraphs.
        prose = re.sub(r"\s", " ", re.sub(r"\n(?=\s*\n)", "|", CODE.sub(_hide, self.words)))
        hits = [(match, use) for pattern, use in WORDS for match in pattern.finditer(prose)]
        opening = re.match(OPENERS, self.words.strip()) if self.is_docstring else None
        hits += [(opening, "Return, Compute, Check")] if opening else []
        for match, use in sorted(hits, key=lambda hit: hit[0].start()):
            line = self.line + self.words.count("\n", 0, match.start())
            yield f"{self.path}:{line}: '{' '.join(match[0].split())}', instead: {use}"


def _hide(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "~", match[0])


def markdown(path: str, text: str) -> Iterator[Text]:
    """Yield the prose of a page; of its code only comments and docstrings, of its output nothing."""
    yield Text(path, 1, FENCE.sub(_hide, text))
    for fence in FENCE.finditer(text):
        for remark in REMARKS.finditer(fence[3] if fence[2] not in ("", "text") else ""):
            line = 1 + text.count("\n", 0, fence.start(3) + remark.start())
            yield Text(path, line, remark[0].strip('"'), remark[0].startswith('"'))


def python(path: str, text: str) -> Iterator[Text]:
    """Yield the docstrings and all other texts of a module."""
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield Text(path, node.lineno, "".join(_value(part) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield Text(path, node.lineno, node.value, node in docstrings)


def _value(part: ast.expr) -> str:
    """Return a part of an f-string; a number stands for what is filled in."""
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "1"


def toml(path: str, text: str) -> Iterator[Text]:
    """Yield all values of a TOML file that are texts."""
    for value in _leaves(tomllib.loads(text)):
        line = text.count("\n", 0, max(text.find(value.split("\n")[0]), 0)) + 1
        yield Text(path, line, value)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def keys(path: str, text: str) -> Iterator[Text]:
    """Yield the keys of a JSON file, as words."""
    found: set[str] = set()
    json.loads(text, object_hook=found.update)
    yield from (Text(path, 1, key.replace("_", " ")) for key in sorted(found))


def helps(parser: argparse.ArgumentParser) -> Iterator[Text]:
    """Yield the help of a command and of those below it."""
    yield Text(f"{SOURCE}/cli ({parser.prog} --help)", 1, parser.format_help())
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from helps(below)


def notebook(path: str, text: str) -> Iterator[Text]:
    """Yield what is read of a notebook, as if it were a page."""
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        yield from markdown(
            path, source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```\n"
        )


READERS = {
    ".md": markdown,
    ".ipynb": notebook,
    ".py": python,
    ".toml": toml,
    ".json": keys,
    ".cff": markdown,
    ".yml": markdown,
}
PUBLIC = [
    "*.md",
    "*.cff",
    "mkdocs.yml",
    "docs/**/*.md",
    "examples/*.py",
    "examples/*.ipynb",
    "tools/site/*.py",
    "experiments/**/*.toml",
]
PUBLIC += [f"{SOURCE}/**/*.{suffix}" for suffix in ("py", "toml", "json")]


def texts() -> Iterator[Text]:
    """Yield every text that users read."""
    for path in sorted({path for pattern in PUBLIC for path in ROOT.glob(pattern)}):
        yield from READERS[path.suffix](path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    yield from helps(make_parser())


def findings(prefix: str = "") -> list[str]:
    """List what to reword in the files whose path begins in this way."""
    return [line for text in texts() if text.path.startswith(prefix) for line in text.findings()]


def package(finding: str) -> str:
    """Return the package or the folder of a finding.

    >>> package("src/soar/attacks/pgd.py:3: 'slope', instead: gradient")
    'src/soar/attacks'
    """
    parts = Path(re.split(r"[: ]", finding)[0]).parts
    return "/".join(parts[:3] if parts[:2] == ("src", "soar") else parts[:1])


def main(paths: list[str]) -> int:
    """Print the findings and their number for each package."""
    found = [line for path in paths or [""] for line in findings(path)]
    print(
        "\n".join(
            [*found, *(f"{count:5} {name}" for name, count in Counter(map(package, found)).most_common())]
        )
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
