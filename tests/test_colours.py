"""The figures' colours stay apart for readers with a colour vision deficiency, and stand out from light and dark pages.

Dichromacy is simulated as in Machado, Oliveira & Fernandes 2009 (IEEE TVCG 15, 1291, doi:10.1109/TVCG.2009.113), the
matrices of severity 1, on linear RGB; distances are CIE 1976 (L*a*b*, D65). About 2 can just be seen side by side.
"""

import itertools

import numpy as np
import pytest

from grpo_lib import logprob_plots, mask_plots, reward_plots
from grpo_lib.plot_style import DASHES, PALETTE, TEXT, line_style

EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
PAGES = ("#FFFFFF", "#121212")
APART, FROM_PAGE = 12, 35  # least distances: between two colours of one figure, and from the page
SETS = {
    "palette": PALETTE,
    "attacks": [shade for _, shade, _ in reward_plots.CLASSES],
    "roles": list(dict.fromkeys(fill for fill, *_ in mask_plots._ROLES.values())),
    "masks": [fill for fill, *_ in mask_plots._COUNTS.values()],
    "heat maps": ["#D55E00", "#F7F7F7", "#1F7FC1"],
}


def linear(colour):
    """Linear RGB of `#RRGGBB`."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(colour, eye):
    """L*a*b* of a colour as this eye sees it."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = xyz @ np.clip(EYES[eye] @ linear(colour), 0, 1) / xyz.sum(axis=1)
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(left, right, eye):
    return float(np.linalg.norm(lab(left, eye) - lab(right, eye)))


def too_close(colours, eye):
    """The pairs of colours that this eye hardly tells apart."""
    pairs = itertools.combinations(colours, 2)
    return [(*pair, round(distance(*pair, eye), 1)) for pair in pairs if distance(*pair, eye) < APART]


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", SETS)
def test_colours_of_one_figure_stay_apart(name, eye):
    assert too_close(SETS[name], eye) == []


@pytest.mark.parametrize("eye", EYES)
def test_lines_and_text_stand_out_from_light_and_dark_pages(eye):
    for colour, page in itertools.product((*PALETTE, TEXT), PAGES):
        assert distance(colour, page, eye) >= FROM_PAGE, (colour, page)


def test_kinds_of_logits_carry_their_name_where_their_colours_are_close():
    shades = [shade for _, shade, _ in logprob_plots._KINDS.values()]
    assert all(not too_close(shades, eye) for eye in ("all cones", "protanopia", "tritanopia"))
    fig = logprob_plots.alignment_figure(["1", "+", "2", "=", "3"], 2)
    assert {"keep", "drop", "–"} <= set(fig.data[0].text[1])


def test_no_two_curves_share_colour_and_dash():
    styles = [(style["color"], style["dash"]) for style in map(line_style, range(len(PALETTE) * len(DASHES)))]
    assert len(set(styles)) == len(styles)


def test_known_values_and_known_confusions():
    assert lab("#FFFFFF", "all cones") == pytest.approx([100, 0, 0], abs=0.02)
    assert lab("#FF0000", "all cones") == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    assert distance("#8C8C8C", "#8C8C8C", "deuteranopia") == 0
    # a red and a green that a deuteranope takes for one another, a blue and a green for a tritanope
    for left, right, eye in (("#B06A4C", "#7D8148", "deuteranopia"), ("#1FA0A0", "#1F9FB4", "tritanopia")):
        assert distance(left, right, eye) < APART < 2 * distance(left, right, "all cones")
    assert too_close(["#CC79A7", "#8C8C8C"], "deuteranopia") != []  # the palette's grey before it was made darker
