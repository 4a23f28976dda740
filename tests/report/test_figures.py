"""The figures of a report, from records that the tests write: which lines they have, and that all are drawn."""

import math
from pathlib import Path

import numpy as np
import pytest

from highway.report import figures
from highway.report.collect import collect
from highway.report.curves import Point, read_curves
from highway.report.figures import band
from highway.report.style import looks
from highway.report.write import write_report
from highway.tables.reading import load_table
from highway.tables.rows import with_overrides
from highway.tables.table import Figure
from tests.support.tables import TRANSLATION, XL, put, put_translation

TABLE = load_table("highway_t1")
pytestmark = pytest.mark.usefixtures("no_published_records")


def test_one_colour_a_gate_in_every_table(tmp_path: Path) -> None:
    colours: dict[str, set[str]] = {}
    for table_id in ("highway_t4", "highway_t6", "hsg_t1", "gated_resnet_t1"):
        collected = collect(load_table(table_id), "paper", tmp_path)
        row_looks = looks(collected)
        assert len(set(row_looks.values())) == len(collected.table.rows)  # no two rows look alike
        for row_id in {"baseline", "tanh", "sigmoid", "highway", "gated_mhdpa"} & row_looks.keys():
            colours.setdefault(row_id, set()).add(row_looks[row_id].colour)
    assert all(len(of_gate) == 1 for of_gate in colours.values())
    assert len(set.union(*colours.values())) == 5


def test_seeds_that_diverged_leave_the_figure_to_the_others(tmp_path: Path) -> None:
    """They ended in their first epoch or at different steps, so they share no step with others."""
    put(tmp_path, "tanh", 1, 1.4, curve=[(step, 2 - step / 1000) for step in range(10, 400, 10)])
    put(tmp_path, "tanh", 2, 1.4, curve=[(5, 9.0)], status="diverged")
    put(tmp_path, "baseline", 1, math.nan, status="diverged", curve=[(step, 5.0) for step in (100, 200, 300, 400)])
    put(tmp_path, "baseline", 2, math.nan, status="diverged", curve=[(50, 5.0)])
    collected = collect(TABLE, "paper", tmp_path)
    for figure in TABLE.figures:
        figures.draw(figure, collected, tmp_path / "report")
        assert "+ tanh SDU<" in (tmp_path / "report" / f"{figure.id}.svg").read_text()


def test_a_row_that_has_not_learned_does_not_squeeze_the_others(tmp_path: Path) -> None:
    data = {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    put(tmp_path, "sigmoid", 1, 30, data=data)
    (figure,) = (each for each in TABLE.figures if each.id == "convergence")
    for axis in figures.draw_curves(figure, collect(TABLE, "paper", tmp_path)).axes:
        bottom, top = axis.get_ylim()
        assert 1 < bottom < top < 3, "2.15 to 1.4 of tanh, and the paper's values; sigmoid falls from 30.75 to 30"
    figures.draw(figure, collect(TABLE, "paper", tmp_path), tmp_path / "report")
    drawn = (tmp_path / "report" / "convergence.svg").read_text()
    assert "+ sigmoid SDU (not learned)<" in drawn and "+ tanh SDU<" in drawn


def test_a_figure_over_seconds_and_tokens(tmp_path: Path) -> None:
    points = [Point(step, step / 100, 2.0, 10 * step, 1000 * step) for step in (25, 50)]
    later = [point._replace(value=3.0, seconds=20 * point.step) for point in points]
    positions, low, mean, high = band([points, later], "valid", "seconds")
    assert positions.tolist() == [375, 750] and low[0] == 2 and mean[0] == 2.5 and high[0] == 3
    assert band([points], "valid", "tokens")[0].tolist() == [25_000, 50_000]


def test_all_figures_of_a_table_of_many_rows_are_drawn(tmp_path: Path) -> None:
    real = Path(__file__).parents[2] / "outputs" / "reference" / "series"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "series").symlink_to(real)
    for row, value in (("baseline", 1.3), ("tanh", 1.25), ("sigmoid", 1.2), ("highway", 1.31), ("tanh_l3_6", 1.0)):
        folder = put(tmp_path, row, 1, value, table=XL)
    folder = put(tmp_path, "sigmoid", 1, 1.2, table=XL)
    rng = np.random.default_rng(0)
    names = [f"blocks.{layer}.{sublayer}.gate" for layer in range(6) for sublayer in ("attention", "feed_forward")]
    (folder / "probes").mkdir()
    np.savez(folder / "probes" / "gate_biases.npz", **{name: rng.normal(size=512) for name in names})  # type: ignore[arg-type]
    _, paths = write_report(collect(XL, "paper", tmp_path), tmp_path / "report")
    assert {path.name for path in paths} >= {"convergence.svg", "ablation.svg", "gate_biases.svg"}
    assert all(path.stat().st_size > 500 for path in paths if path.suffix == ".svg")
    assert "the authors' logs" in (tmp_path / "report" / "convergence.svg").read_text()


def test_the_authors_logs_end_where_the_papers_table_does() -> None:
    """Each log ends at the paper's value, except for gated MHDPA.

    Its public log is of another run (FACTS.md 1.4): that of tanh SDU without FFN.
    """
    logs = read_curves(Path(__file__).parents[2] / "outputs" / "reference" / "series" / "highway_t5.csv")
    for row_id, curves in logs.items():
        same = "tanh_attention" if row_id == "gated_mhdpa" else row_id
        assert curves["valid", "bpc"][-1][2] == pytest.approx(XL.row(same).paper["valid_bpc"], abs=6e-4)
        assert len(curves["valid", "loss"]) == 100 and len(curves["train", "loss"]) == 200


def test_rows_as_points_and_bars(tmp_path: Path) -> None:
    """BLEU over accuracy correlates by -0.30 in the paper; our values need three rows for a line."""
    put_translation(tmp_path, "t_e4h6")
    asserted = ("lengths", "bleu_accuracy", "bleu_heads", "bleu_layers")
    table = TRANSLATION.model_copy(update={"figures": [each for each in TRANSLATION.figures if each.id in asserted]})
    _, paths = write_report(collect(table, "paper", tmp_path), tmp_path / "report")
    drawn = {path.stem: path.read_text() for path in paths if path.suffix == ".svg"}
    assert "paper (correlation -0.30)" in drawn["bleu_accuracy"] and ">ours<" in drawn["bleu_accuracy"]
    assert ">6 heads<" in drawn["bleu_heads"] and ">M3<" in drawn["bleu_heads"] and ">M3<" not in drawn["bleu_layers"]
    assert ">pt: mean 1.5, median 1.5, vocabulary 2<" in drawn["lengths"] and "vocabulary 22<" in drawn["lengths"]


def test_what_models_know_of_the_text_they_have_seen_over_validation(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4, metrics={"seen_bpc": {"best": 1.2, "last": 1.1}})
    figure = Figure(id="seen", caption="Seen text", kind="scatter", metrics=["seen_bpc", "valid_bpc"])
    (axis, *_) = figures.draw_scatter(figure, collect(TABLE, "paper", tmp_path)).axes
    assert axis.get_ylabel() == "bits per character of seen text"
    assert axis.get_xlabel() == "validation bits per character"


def test_figures_of_states(tmp_path: Path) -> None:
    """Figures show one row of either kind, as its run leaves it; the rows without records say so."""
    table = load_table("hsg_t1")
    ppl = {f"{split}_ppl": {"best": value, "last": value} for split, value in (("valid", 66.0), ("test", 63.5))}
    for row in ("rhn_20", "hsg_20"):
        probes = put(tmp_path, row, 1, 64.0, table=table, metrics=ppl) / "probes"
        probes.mkdir()
        np.savez(probes / "gradient_norms.npz", state=2.0 ** -np.arange(50.0))
        if row == "hsg_20":
            np.savez(probes / "gate_values.npz", **{"layers.0.gate": np.array([3.0, 0.0, 0.0, 1.0])})
    _, paths = write_report(collect(table, "paper", tmp_path), tmp_path / "report")
    drawn = {path.stem: path.read_text() for path in paths if path.suffix == ".svg"}
    assert "RHN 20 + HSG: 4 values, mean 0.312<" in drawn["gate_values"]
    assert "RHN 40 + HSG: no values" in drawn["gate_values"] and "depth 40: no values" in drawn["gradients"]
    assert "validation: no values" in drawn["convergence"]
    assert ">depth 20<" in drawn["gradients"] and ">RHN 20 + HSG<" in drawn["gradients"]
    assert looks(collect(table, "paper", tmp_path))["hsg_20"].colour in drawn["gate_values"]
    assert drawn["depth"].count(">paper<") == 2 and ">RHN + HSG<" in drawn["depth"]
    collected = collect(table, "paper", tmp_path)
    gradients = next(each for each in table.figures if each.id == "gradients")
    three = gradients.model_copy(update={"groups": dict(list(gradients.groups.items())[:3])})
    assert len(figures.draw_gradients(three, collected).axes) == 3
    (sample,) = collected.finished("hsg_20")
    assert sample.probe("gate_values")["layers.0.gate"].sum() == 4 and sample.probe("nothing") == {}


def test_a_legend_of_long_labels_is_not_cut_off(tmp_path: Path) -> None:
    rows = [row.model_copy(update={"label": f"{row.id} optimizer.lr=0.25 model.dropout=0.1"}) for row in TABLE.rows]
    table = TABLE.model_copy(update={"rows": rows})
    for row in table.rows[:3]:
        put(tmp_path, row.id, 1, 1.5, table=table)
    figure = next(figure for figure in table.figures if figure.kind == "curves")
    canvas = figures.draw_curves(figure, collect(table, "paper", tmp_path))
    figures._add_legend(canvas)
    (legend,) = canvas.legends
    assert 0 < legend.get_window_extent().width <= canvas.bbox.width


def test_any_number_of_predecessors_has_a_colour(tmp_path: Path) -> None:
    few = TRANSLATION.model_copy(update={"rows": TRANSLATION.rows[:5]})
    table = with_overrides(few, ["paper"], ["gate.score.predecessors=4"])
    assert len(looks(collect(table, "paper", tmp_path))) == len(table.rows)
