"""scripts/records.py: what ran on one machine reads on another, and nothing finished is replaced."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.ledger.files import read_json
from highway.ledger.record import write_record
from highway.ledger.seal import sealed
from highway.report.collect import REFERENCE, collect
from highway.report.exchange import export_records, import_records
from highway.report.write import write_report
from highway.sweep.reading import load_table

TABLE = load_table("highway_t3")
ROOT = Path(__file__).parents[1]
PUBLISHED = len(collect(TABLE, "mini", REFERENCE.parent / "nothing of one's own").every)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Outputs of a machine that has run the table; none are published."""
    shutil.copytree(REFERENCE / "cells", tmp_path / "cluster" / "cells")
    monkeypatch.setattr("highway.report.collect.REFERENCE", tmp_path / "nothing published")
    (tmp_path / "cluster" / "cells" / "transformer-0f22ae17b101" / "seed1" / "checkpoints").mkdir()
    (tmp_path / "cluster" / "cells" / "transformer-0f22ae17b101" / "seed1" / "checkpoints" / "resume.ckpt").touch()
    return tmp_path / "cluster"


def test_the_same_table_on_another_machine(cluster: Path, tmp_path: Path) -> None:
    file, laptop = tmp_path / "t3.tar.gz", tmp_path / "laptop"
    assert len(export_records([TABLE], None, cluster, file)) == PUBLISHED >= 3
    assert file.stat().st_size < 1 << 20
    imported = import_records(file, laptop)
    assert (len(imported.new), imported.kept) == (PUBLISHED, [])
    assert not list(laptop.rglob("checkpoints"))
    pages = []
    for outputs in (cluster, laptop):
        collected = collect(TABLE, "mini", outputs)
        assert len(collected.every) == PUBLISHED
        _, paths = write_report(collected, tmp_path / f"report of {outputs.name}")
        pages.append({path.name: path.read_bytes() for path in paths})
    assert pages[0] == pages[1] and len(pages[0]) == 5
    again = import_records(file, laptop)
    assert (again.new, len(again.kept)) == ([], PUBLISHED)
    export_records([TABLE], "mini", laptop, tmp_path / "again.tar.gz")
    assert (tmp_path / "again.tar.gz").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("here", "there", "replaced"),
    [
        ("failed", "finished", True),
        ("interrupted", "diverged", True),
        ("finished", "diverged", False),
        ("diverged", "finished", True),
        ("finished", "finished", False),
    ],
)
def test_the_better_end_stays(cluster: Path, tmp_path: Path, here: str, there: str, replaced: bool) -> None:
    cell = "transformer-0f22ae17b101/seed1"
    for path in (cluster / "cells").glob("*/seed1/result.json"):
        write_record(path.parent, {**read_json(path), "status": there, "command": "there"})
    export_records([TABLE], "mini", cluster, tmp_path / "file")
    own = tmp_path / "laptop" / "cells" / cell / "result.json"
    write_record(own.parent, {"status": here, "command": "here"})
    import_records(tmp_path / "file", tmp_path / "laptop")
    assert read_json(own)["command"] == ("there" if replaced else "here")


def test_a_running_cell_is_left_alone(cluster: Path, tmp_path: Path) -> None:
    export_records([TABLE], "mini", cluster, tmp_path / "file")
    cell = Cell(tmp_path / "laptop" / "cells" / "transformer-0f22ae17b101" / "seed1")
    with cell.leased():
        assert import_records(tmp_path / "file", tmp_path / "laptop").kept == ["transformer-0f22ae17b101/seed1"]


def archive(path: Path, **members: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def test_files_that_are_no_records_are_refused(cluster: Path, tmp_path: Path) -> None:
    export_records([TABLE], "mini", cluster, tmp_path / "good")
    (tmp_path / "half").write_bytes((tmp_path / "good").read_bytes()[:9000])
    (tmp_path / "text").write_text("table,budget\n")
    name = "transformer-0f22ae17b101/seed1"
    record = {f"{name}/config.yaml": "", f"{name}/curves.csv": ""}
    archive(tmp_path / "escapes", **{"../../x": ""})
    archive(tmp_path / "lacks", **record)
    odd = json.dumps(sealed({"cell": "transformer-1", "seed": 1}))
    archive(tmp_path / "odd", **record, **{f"{name}/result.json": odd})
    archive(tmp_path / "flipped", **record, **{f"{name}/result.json": odd.replace("-1", "-2")})
    elsewhere = "transformer-000000000000/seed1"
    folder = next(path for path in cluster.glob("cells/*/seed1") if not (path / "probes").exists())
    good = {path.relative_to(folder): path.read_text() for path in folder.glob("*.*")}
    archive(tmp_path / "other", **{f"{elsewhere}/{file}": text for file, text in good.items()})
    archive(
        tmp_path / "emptied",
        **record,
        **{f"{name}/result.json": (cluster / "cells" / name / "result.json").read_text()},
    )
    wanted = {
        "half": "not a whole file of scripts/records.py export",
        "text": "not a whole file of scripts/records.py export",
        "none": "does not exist",
        "escapes": r"holds '\.\./\.\./x', which no record has",
        "lacks": "has no result.json",
        "odd": f"{name}: status is not one of finished",
        "flipped": f"{name}: result.json is damaged",
        "emptied": f"config.yaml of {name} is not what it was when it was recorded",
        "other": "is not that cell's",
    }
    for file, sentence in wanted.items():
        with pytest.raises(Refused, match=sentence):
            import_records(tmp_path / file, tmp_path / "laptop")
    assert not (tmp_path / "laptop").exists()


def test_as_typed(tmp_path: Path) -> None:
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / "records.py"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    file = str(tmp_path / "records.tar.gz")
    done = typed("export", file, "highway_t3")
    assert (done.returncode, done.stderr) == (0, "") and f"{PUBLISHED} records" in done.stdout
    done = typed("import", file, "--into", str(tmp_path / "there"))
    assert f"{PUBLISHED} records imported, 0 here already" in done.stdout
    done = typed("import", str(ROOT / "README.md"))
    assert done.returncode == 2 and done.stderr.startswith("error: ")
