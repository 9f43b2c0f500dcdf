"""The page: every figure, well-formed, and nothing that it would load."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from keras_txl.report.figures import make_charts
from keras_txl.report.page import make_page
from tests.report.conftest import HOSTILE

pytestmark = pytest.mark.backend("tensorflow")  # no tensors

VOID = {"meta", "input", "br", "hr"}
FIGURES = {
    *("text", "memory", "positions", "attention", "entropy", "far"),
    *("terms", "relative_keys", "norms", "drift"),
    *("recl", "protocol", "model"),
}


class Reader(HTMLParser):
    """Keeps elements and text, and checks that what opens closes."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append((self.open[-1] if self.open else None, data))


def page_of(found, title="A title", facts=None):
    return make_page(title, facts or {}, found, make_charts(found))


@pytest.fixture(scope="module")
def page(found):
    return page_of(found, facts={"folder": HOSTILE, "parameters": 1234567})


def test_every_figure_is_there(page):
    ids = {attrs.get("id") for _, attrs in Reader(page).elements}
    assert FIGURES <= ids
    assert page.count("<svg ") == len(FIGURES) - 4
    assert "1,234,567" in page


def test_nothing_is_loaded_and_nothing_runs(page):
    reader = Reader(page)
    tags = {tag for tag, _ in reader.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "base"}
    for _, attrs in reader.elements:
        assert not {"src", "href", "srcset", "action"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


def test_what_comes_from_outside_is_text(found, page):
    reader = Reader(page)
    shown = "".join(text for _, text in reader.text)
    assert shown.count(HOSTILE) == 2  # in the text and among the facts
    assert "a protocol with 2.5 & <b>" in shown
    assert "\x00" not in page
    hostile = Reader(page_of(found, title=HOSTILE))
    assert ("h1", HOSTILE) in hostile.text
    assert "script" not in {tag for tag, _ in hostile.elements}


def test_charts_are_xml(page):
    charts = re.findall(r"<svg .*?</svg>", page)
    assert charts and len(charts) == page.count("<svg")
    for svg in charts:
        root = ElementTree.fromstring(svg)
        assert root.get("viewBox") and root.get("aria-label")
        assert len(list(root.iter("text"))) >= 4  # axes with their labels
        assert "nan" not in svg


def test_a_piece_tells_both_losses_and_its_shade(page):
    pieces = {
        attrs["data-d"]: attrs
        for tag, attrs in Reader(page).elements
        if tag == "b" and "data-d" in attrs
    }
    helped, hurt = pieces["-2.25"], pieces["+1.00"]
    assert (helped["data-w"], helped["data-o"]) == ("1.25", "3.50")
    # Shades of a change go from 0, most saved, over 4, none, to 8.
    assert "d0" in helped["class"].split()
    assert hurt["class"].split() == ["w5", "o3", "d6", "n"]
    assert "d4" in pieces["+0.00"]["class"].split()


def test_what_cannot_be_measured_is_said(found):
    few = dataclasses.replace(
        found, terms=None, relative_keys=None, effective_context={}
    )
    ids = {attrs.get("id") for _, attrs in Reader(page_of(few)).elements}
    assert FIGURES - ids == {"terms", "relative_keys"}
    assert "The text is too short" in page_of(few)


def test_the_effective_context_says_at_least(page):
    assert "<td>100 %</td><td>at least 4</td><td>+5.0 %</td>" in page
