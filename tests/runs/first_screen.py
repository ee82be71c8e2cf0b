"""What a page shows before its first fold, and a terminal before its details: at most twelve numbers."""

import html
import re

MOST = 12


def numbers_on_the_first_screen(page: str) -> list[str]:
    """Every number in the text of a page before its first fold; names, styles and pictures are not text."""
    first = page.partition("<details>")[0]
    return numbers(html.unescape(re.sub(r"<style>.*?</style>|<h1>.*?</h1>|<title>.*?</title>|<[^>]*>", " ", first)))


def numbers_above_the_details(printed: str) -> list[str]:
    """Every number that a terminal shows before `Details:`, which must be there."""
    answers, between, _ = printed.partition("Details:")
    assert between
    return numbers(answers)


def numbers(text: str) -> list[str]:
    """Numbers that stand alone, those in names not."""
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)
