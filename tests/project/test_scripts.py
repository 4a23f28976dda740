"""The other commands, as typed: explain, status, report, data."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from highway.cli import main
from highway.config.experiment import SECTIONS, Experiment
from highway.config.home import CONF
from highway.config.origins import NEUTRAL
from highway.data import penn_treebank
from highway.keys.schema import dotted
from highway.ledger.directory import RunDirectory
from highway.ledger.files import write_json
from highway.ledger.identity import PARTS, configuration
from highway.tables import grid, reading
from highway.tables.explain import origins
from highway.tables.reading import load_table
from tests.support.data import REAL_DATA, needs_real_data, write_corpus
from tests.support.tables import put, write_ended

ROOT = Path(__file__).parents[2]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Return a function that runs `highway <line>`; it returns the exit code, the output and the errors."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["highway", *line.split()])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("table", "plain", "gated"), [("highway_t1", "9,482,289", "12,634,161"), ("highway_t3", "1,884,816", "2,082,960")]
)
def test_explain_counts_parameters(
    typed: Callable[..., tuple[int, str, str]], table: str, plain: str, gated: str
) -> None:
    code, out, _ = typed(f"table explain {table}")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert plain in rows["baseline"]
    assert gated in rows["tanh"]
    assert gated in rows["sigmoid"]


def test_explain_a_row(typed: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = typed("table explain highway_t1 tanh")
    assert "x + f(x) + psi(x W1 + b1) * (x W2 + b2)" in out
    assert "highway train model=transformer layers=all dataset=ptb_char" in out
    text = " ".join(out.split())
    assert "psi = tanh" in text
    assert "12,634,161, of which 3,151,872 in gates; +3,151,872 (+33.2%) compared with T-L3" in text
    assert "paper + tanh SDU: eval loss 0.9714, eval bpc 1.401, test loss 0.945, test bpc 1.364" in text
    assert "T-L3: eval loss 1.0680, eval bpc 1.541, test loss 1.036, test bpc 1.495" in text
    assert "source Highway Transformer (Chai et al., 2020), Table 1; recipe: appendix A.1" in text
    assert "conf/gate/sdu_tanh.yaml: gate.residual=sdu gate.activation=tanh\n" in out
    assert "model.width=" not in out  # 512 is the neutral default
    _, out, _ = typed("table explain highway_t1 tanh --budget smoke")
    assert "conf/table/highway_t1.yaml (budget smoke): model.width=64" in out
    _, out, _ = typed("table explain highway_t3 post_norm")
    assert (
        "an extra row, which the paper lacks" in " ".join(out.split())
        and "The paper has no numbers for this row." in out
    )
    assert "conf/table/highway_t3.yaml (row post_norm): model.norm=post\n" in out


def test_every_setting_has_an_origin(experiment: Callable[..., Experiment]) -> None:
    """`explain` attributes each value to the last file that names its key, and that file has this value."""
    tables = map(load_table, ("highway_t5", "hsg_t1", "gated_resnet_t1", "r_transformer_t2"))
    for table, budget in itertools.product(tables, ("paper", "smoke")):
        row = table.at(budget)[-1]
        actual = origins(table, row, budget)
        described = configuration(experiment(*table.overrides(row, budget, seed=1)))
        for key, value in dotted({name: described[name] for name in PARTS}).items():
            file = CONF.parent / actual[key].split(" ")[0]
            if actual[key] == NEUTRAL:
                section = key.split(".")[0]
                assert dotted({section: SECTIONS[section]().model_dump()})[key] == value
            elif file.parent.name != "table":
                content = dotted(yaml.safe_load(file.read_text()))
                name = key if file.parent.name == "budget" else key.split(".", 1)[1]
                assert content[name] == value or key.startswith("layers."), (table.id, row.id, key)


def test_status_of_a_table(typed: Callable[..., tuple[int, str, str]], experiment: Callable[..., Experiment]) -> None:
    table = load_table("highway_t3")
    ends = {1: "finished", 2: "failed", 4: "failed"}
    progress = {"step": 150, "steps": 600, "tokens_per_second": 1.0, "seconds_left": 1.0}
    lease = {"pid": 1, "started": 1.0, "host": "another", "machine": "another", "progress": progress}
    for seed in (1, 2, 3, 4):
        directory = RunDirectory.of(experiment(*table.overrides(table.row("tanh"), "smoke", seed)))
        write_json(directory.leases / "1.json", lease | {"ended": seed != 3})
        if seed in ends:
            write_ended(directory.path, ends[seed], budget="smoke")
    _, out, _ = typed("table status highway_t3")
    assert "finished: seed 1 " in out and "failed: seeds 2, 4" in out and "running at 25%: seed 3" in out
    os.utime(RunDirectory.of(experiment(*table.overrides(table.row("tanh"), "smoke", 3))).leases / "1.json", (0, 0))
    _, out, _ = typed("table status highway_t3")
    assert "interrupted at 25%: seed 3" in out


GRID = {
    "id": "rates",
    "caption": "Two gates",
    "command": "highway train -m gate=none,sdu_tanh budget=smoke",
    "recipe": ["model.width=16", "model.heads=2"],
    "columns": [{"metric": "test_bpc"}],
    "rows": [{"id": f"gate={gate}", "label": gate, "overrides": [f"gate={gate}"]} for gate in ("none", "sdu_tanh")],
    "budgets": {"smoke": []},
}


def test_commands_take_a_grid_and_rows_with_overrides(
    typed: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    grid.keep(GRID, tmp_path / "outputs")
    table = reading.find("rates", tmp_path / "outputs")
    row = table.row("gate=sdu_tanh").named_after(["layers=l2-3"])
    put(tmp_path / "outputs", row.id, 2, 1.5, "smoke", table=table.model_copy(update={"rows": [row]}))
    _, out, _ = typed("table status rates")
    assert "smoke" in out and "paper" not in out and out.count("not run") == 2
    _, out, _ = typed("table status rates gate=sdu_tanh --with layers=l2-3")
    assert "gate=sdu_tanh,layers=l2-3 finished: seed 2" in " ".join(out.split())
    _, out, _ = typed("table explain rates --with layers=l2-3")
    assert "gate=none,layers" not in out and "gate=sdu_tanh,layers=l2-3" in out
    assert "all rows: highway train -m gate=none,sdu_tanh budget=smoke layers=l2-3" in out
    _, out, _ = typed("table explain rates gate=sdu_tanh --with layers=l2-3")
    assert "grids/rates/table.yaml (recipe): model.width=16 model.heads=2\n" in out
    assert "the command: layers.attention=[2,3] layers.feed_forward=[2,3]\n" in out
    assert "gate=sdu_tanh budget=smoke seed=1 layers=l2-3" in out and "the paper" not in out
    code, out, _ = typed("dashboard rates --dry-run")
    assert code == 0 and "rates" in out


def test_status_of_the_published_records(typed: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = typed("table status highway_t3")
    words = " ".join(out[out.index("baseline") : out.index("sigmoid")].split())
    assert words == "baseline finished: seeds 1, 2, 3 not run finished: seeds 1-4 not run"


def test_report_writes_what_it_names(typed: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = typed("report highway_t3 --budget mini")
    paths = [Path(line) for line in out.splitlines() if line.endswith((".md", ".csv", ".tex", ".svg"))]
    assert code == 0
    assert len(paths) == 6 and all(path.exists() for path in paths)
    finding = "at a smaller size, SDUs without dropout help: test perplexity"
    assert "Claims of the paper" in out and finding in " ".join(out.split())
    markdown, csv, latex = (next(path for path in paths if path.suffix == ending) for ending in (".md", ".csv", ".tex"))
    assert "|T-L3|130.43|186.84 ± 0.62|4||" in markdown.read_text()
    assert csv.read_text().startswith("table,budget,data,row")
    assert "\\toprule" in latex.read_text()
    _, out, _ = typed("report highway_t1 --budget smoke")
    assert "no records yet" in out


def test_data_list_and_sample(typed: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    _, out, _ = typed("data list")
    assert out.count("missing") == 17
    code, out, _ = typed("data verify")
    assert (code, out.count(": missing ")) == (0, 17)
    write_corpus(tmp_path / "data", " a \n", " a \n")
    _, out, _ = typed("data list")
    assert out.count("present") == 9
    _, out, _ = typed("data prepare ptb_word --source sample")
    assert "vocabulary 389" in out
    code, _, err = typed("data verify ptb_word")
    assert code == 2 and "is not the published Penn Treebank file" in err


def test_verify_says_so_if_nothing_is_declared(
    typed: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of one's own, whose card has no checksums."""
    write_corpus(tmp_path / "data", " a \n", " a \n")
    monkeypatch.setattr("highway.data.prepare.PUBLISHED", frozenset())
    monkeypatch.setattr(penn_treebank, "PENN_TREEBANK", replace(penn_treebank.PENN_TREEBANK, checksums={}))
    assert typed("data verify ptb_word")[1] == "ptb_word: its card declares no checksums, so nothing was checked\n"


@needs_real_data
def test_data_verify(typed: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWAY_DATA", str(REAL_DATA))
    forms = "ptb_char ptb_char_benchmark ptb_char_joined ptb_char_newline ptb_word"
    code, out, _ = typed(f"data verify {forms} enwik8_excerpt pt_en_substitute mnist nottingham")
    assert code == 0
    assert out.count("every file has its declared sha256") == 7 and out.count("are the published pairs") == 1
    assert out.count("the sha256 of its first 4,150,000 bytes are right") == 1


def test_whatever_a_notebook_or_a_terminal_leaves_in_the_environment(tmp_path: Path) -> None:
    """A table is printed in ASCII, and MPLBACKEND is unset."""
    environment = {"PYTHONIOENCODING": "ascii", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    environment |= {"HIGHWAY_OUTPUTS": str(tmp_path), "PATH": os.environ["PATH"]}
    code = "import os; from highway.cli import main; main(); assert 'MPLBACKEND' not in os.environ"
    command = [sys.executable, "-c", code, "report", "highway_t3", "--budget", "mini"]
    done = subprocess.run(command, env=environment, capture_output=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"") and b"?" in done.stdout
