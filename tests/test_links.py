"""Links within the book lead somewhere, images have alt text, and addresses outside have the form of what they cite."""

import re

import pytest

import links

FOUND = links.texts()
ALT = 20  # characters, the least


def test_every_link_within_the_book_leads_to_a_file_and_a_heading():
    assert links.broken(FOUND) == []


def test_every_address_outside_can_be_right():
    table = links.external(FOUND)
    assert len(table) > 50 and links.malformed(table) == []


def test_the_command_lists_every_address_once(capsys):
    assert links.main() in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines][: len(links.external(FOUND))] == sorted(links.external(FOUND))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_every_image_has_alt_text(path):
    short = [(alt, to) for alt, to in links.images(FOUND[path]) if len(alt) < (10 if "badge" in to else ALT)]
    assert short == []
    assert "<img" not in FOUND[path]


@pytest.mark.parametrize("path", [p for p in FOUND if re.match(r"\d\d_.*ipynb", p.name)], ids=lambda path: path.stem)
def test_each_notebook_leads_to_the_one_before_and_the_one_after(path):
    books = sorted(p.name for p in FOUND if p.suffix == ".ipynb")
    place = books.index(path.name)
    last = FOUND[path].strip().rpartition("\n\n")[2]
    for word, name in (("Previous", books[place - 1] if place else None), ("Next", books[place + 1 : place + 2])):
        name = name[0] if isinstance(name, list) and name else name
        if name:
            assert re.search(rf"{word}:\s\[{name[:2]} · [^\]]+\]\({name}\)", last), (word, name, last)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[a](b.md#c) and ![d](e.png)", ["b.md#c", "e.png"]),
        ("[![badge of it](x.svg)](https://a.org/b_(c))", ["https://a.org/b_(c)", "x.svg"]),
        ("see https://a.org/b. (https://a.org/c)", ["https://a.org/b", "https://a.org/c"]),
        ("`[no](x)` and\n```python\na[0](https://no.org)\n```\n", []),
        ("[doi](<https://doi.org/10.1/a(b)>)", ["https://doi.org/10.1/a(b)"]),
        ('[a](b.md "title")', ["b.md"]),
    ],
)
def test_links_of_a_text(text, expected):
    assert links.links(text) == expected


@pytest.mark.parametrize(
    "link, why",
    [
        ("https://arxiv.org/abs/2402.03300", None),
        ("https://arxiv.org/abs/2402.033", "not the form"),
        ("https://doi.org/10.1007/BF00992696", None),
        ("https://doi.org/BF00992696", "not the form"),
        ("http://arxiv.org/abs/2402.03300", "not https"),
        ("https://example.com/a", "placeholder"),
        ("https://a.org/TODO", "placeholder"),
        ("https://host/a", "no name of a host"),
    ],
)
def test_the_form_of_an_address(link, why):
    fault = links.fault(link)
    assert fault is None if why is None else why in fault


def test_a_broken_link_is_found(tmp_path):
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    text = "## Here it is\n[1](b.md#there) [2](b.md#gone) [3](c.md) [4](#here-it-is) [5](#no) [6](https://a.org#x)"
    for path in (page, other):
        path.write_text(text)
    bad = links.broken({page: text, other: "(there)=\n## A heading"})
    assert [(link, why) for _, link, why in bad] == [
        ("b.md#gone", "there is no such heading"),
        ("c.md", "there is no such file"),
        ("#no", "there is no such heading"),
    ]
