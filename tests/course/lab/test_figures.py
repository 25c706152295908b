"""The drawing of a batch's slots: what each bar stands for."""

import matplotlib.pyplot as plt
import pytest

from course.lab import figures
from course.lab.figures import LINES, draw_timeline, image_html
from nanolm.workload import ServingRun


@pytest.fixture
def drawn():
    figs = []

    def draw(*arguments, **options):
        figs.append(draw_timeline(*arguments, **options))
        return figs[-1].axes[0]

    yield draw
    for fig in figs:
        plt.close(fig)


STATIC = ServingRun(((0, 1), (0, None), (0, None), (0, None), (2, 3)), 2, (0,) * 4)


def test_draw_timeline_has_a_bar_for_each_stretch_of_a_slot(drawn):
    bars = [(bar.get_x(), bar.get_width(), bar.get_hatch()) for bar in drawn(STATIC).patches]
    assert bars == [(0, 4, None), (4, 1, None), (0, 1, None), (1, 3, "////"), (4, 1, None)]


def test_draw_timeline_numbers_its_requests_and_names_its_slots(drawn):
    ax = drawn(STATIC, "Static")
    assert [text.get_text() for text in ax.texts] == ["0", "2", "1", "3"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["slot 0", "slot 1"]
    assert ax.get_title(loc="left") == "Static" or ax.get_title() == "Static"
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "slot 0 is on top"


def test_draw_timeline_gives_a_request_the_same_colour_in_every_run(drawn):
    continuous = ServingRun(((0, 1), (0, 2)), 2, (0,) * 3)
    edges = [[bar.get_edgecolor() for bar in drawn(run).patches] for run in (STATIC, continuous)]
    assert edges[0][1] == edges[1][2] == plt.matplotlib.colors.to_rgba(LINES[2])


def test_draw_timeline_leaves_numbers_out_where_there_is_no_room(drawn):
    # 64 slots; and a stretch of 1 step in 500.
    assert not drawn(ServingRun((tuple(range(64)),), 64, (0,) * 64)).texts
    assert [text.get_text() for text in drawn(ServingRun(((0,), *[(1,)] * 499), 1, (0, 0))).texts] == ["1"]


def test_draw_timeline_can_draw_two_runs_to_one_scale(drawn):
    assert drawn(STATIC).get_xlim() == (0, 5)
    assert drawn(STATIC, n_steps=8).get_xlim() == (0, 8)


def test_draw_timeline_of_nothing_is_an_empty_drawing(drawn):
    ax = drawn(ServingRun((), 2, ()))
    assert not ax.patches
    assert '<img alt="nothing"' in image_html(ax.figure, "nothing")


def luminance(colour):
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colour", [*LINES, figures.GREY])
def test_every_colour_has_a_contrast_of_three_to_one_with_the_white_behind_it(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 3


def test_the_title_stands_left_and_a_legend_has_no_frame():
    fig, ax = figures.figure()
    ax.plot([1, 2], label="a")
    ax.set(title="A title")
    ax.legend()
    fig.legend(["b"])
    image_html(fig, "one line")
    assert (ax.get_title(loc="left"), ax.get_title()) == ("A title", "")
    assert not ax.get_legend().get_frame_on() and not fig.legends[0].get_frame_on()
    plt.close(fig)


@pytest.fixture(params=["line", "log line", "points", "bars", "labels", "upper right as given"])
def covered(request):
    """An axis whose legend lies on what is drawn, wherever in it the legend stands."""
    fig, ax = figures.figure(columns=2, sharey=True)
    ax, x, y = ax[0], [i / 10 for i in range(240)], [1 + (7 * i) % 24 for i in range(240)]
    if "line" in request.param or "given" in request.param:
        ax.plot(x, y, label="all over")
    elif request.param == "bars":
        ax.bar(range(24), [20] * 24, label="tall")
    elif request.param == "points":
        ax.scatter(x, y, label="scattered")
    else:
        ax.plot(0, 0, "o", label="the first")
        for i in range(24):
            ax.annotate("a label as wide as the figure", (0, i))
        ax.set(xlim=(0, 2), ylim=(-1, 24))
    ax.set_yscale("log" if "log" in request.param else "linear")
    ax.legend(loc="upper right" if "given" in request.param else "best")
    yield ax
    plt.close(fig)


def test_a_legend_that_lies_on_what_is_drawn_gets_room_of_its_own(covered):
    assert figures.legend_covers(covered)
    bottom = covered.get_ylim()[0]
    image_html(covered.figure, "a legend")
    assert not figures.legend_covers(covered) and covered.get_ylim()[0] == bottom


def test_a_legend_beside_what_is_drawn_stays_and_so_do_the_limits():
    fig, ax = figures.figure()
    ax.plot([0, 1], [0, 1], label="rises")
    ax.axvline(0.1, linestyle="--")
    ax.legend(loc="lower right")
    limits, place = ax.get_ylim(), ax.get_legend()._get_loc()
    image_html(fig, "a line")
    assert (ax.get_ylim(), ax.get_legend()._get_loc()) == (limits, place)
    plt.close(fig)


def test_a_line_as_tall_as_the_figure_moves_a_legend_too():
    fig, ax = figures.figure()
    ax.axvline(0.9, label="here")
    ax.set(xlim=(0, 1))
    ax.legend(loc="upper right")
    assert figures.legend_covers(ax)
    image_html(fig, "a line")
    assert not figures.legend_covers(ax)
    plt.close(fig)


def test_a_legend_for_which_there_is_no_room_leaves_the_limits_as_they_were():
    fig, ax = figures.figure(3, 1.7)
    ax.bar([0], [1], label="\n".join("tall!"))
    ax.legend()
    limits = ax.get_ylim()
    image_html(fig, "a bar")
    assert ax.get_ylim() == limits
    plt.close(fig)


def test_a_label_has_a_white_edge_where_a_line_or_an_arrow_runs_through_it_and_only_there():
    fig, ax = figures.figure()
    ax.plot([0, 1], [0, 1])
    ax.annotate("", (1, 0.1), (0.6, 0.1), arrowprops={"arrowstyle": "->"})
    for place in ((0.5, 0.5), (0.8, 0.1), (0.2, 0.8)):
        ax.text(*place, "a label", ha="center", va="center")
    ax.text(0.5, 0.5, "in a box", bbox={})
    image_html(fig, "labels")
    edged = [label.get_position() for label in ax.texts if label.get_path_effects()]
    assert edged == [(0.5, 0.5), (0.8, 0.1)]
    plt.close(fig)


def test_a_narrow_page_scrolls_a_figure_instead_of_shrinking_its_text_away():
    fig, _ = figures.figure(width=8)
    page = image_html(fig, "nothing")
    assert page.startswith('<div style="overflow-x:auto">') and "min-width:634px" in page  # 0.72 of 8 in, 110 px each
    plt.close(fig)
