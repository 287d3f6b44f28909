"""Hostile text in every place it may be written to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.safetext import csv_text, csv_value, html_text, markdown_cell, terminal_text


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("", ""),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("＝1", "'＝1"),
        ("'quoted'", "'quoted'"),
        ("'=1", "''=1"),
        ("nul\0here", "nul\\u0000here"),
        ("lone \ud800", "lone \\ud800"),
        ("C:\\users", "C:\\u005cusers"),
        ('a,b "c" 模型 🤖', 'a,b "c" 模型 🤖'),
    ],
)
def test_csv(text: str, cell: str) -> None:
    assert csv_text(text) == cell
    assert csv_value(cell) == text


@given(st.text(alphabet=st.characters(codec=None)) | st.text(alphabet="'=+\\u0\0\t\ud800"))
def test_csv_can_be_undone_and_never_starts_a_formula(text: str) -> None:
    cell = csv_text(text)
    assert csv_value(cell) == text
    assert cell[:1] not in set("=+-@\t\r\n")
    cell.encode()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", "a\\|b"),
        ("two\r\nlines", "two lines"),
        ("<b>[x](http://e)", "\\<b\\>\\[x\\](http://e)"),
        ("sc_k10", "sc_k10"),
        ("\x1b[31m", "\\\\u001b\\[31m"),
    ],
)
def test_markdown_cell(text: str, cell: str) -> None:
    assert markdown_cell(text) == cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>\"'&", "&lt;script&gt;&quot;&#x27;&amp;"),
        ("a\0b", "a\\u0000b"),
    ],
)
def test_html(text: str, shown: str) -> None:
    assert html_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b31m", "\\u009b31m"),
        ("line\n\ttab", "line\n\ttab"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_terminal(text: str, shown: str) -> None:
    assert terminal_text(text) == shown
