"""highway records: records of one machine are readable on another, and nothing finished is replaced."""

import contextlib
import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import highway
from highway.config.home import REFERENCE
from highway.errors import Refused
from highway.exchange import admission
from highway.exchange.records import export_records, import_records
from highway.files.seal import sealed
from highway.files.writing import read_json
from highway.ledger.directory import RunDirectory
from highway.ledger.record import read_record, write_record
from highway.report.collect import collect
from highway.report.publish import write_report
from highway.run.recorder import COLUMNS
from highway.sweep.reading import load_table
from tests.support import commands

TABLE = load_table("highway_t3")
ROOT = Path(__file__).parents[2]
PUBLISHED = len(collect(TABLE, "mini", REFERENCE.parent / "nothing of one's own").every)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the outputs of a machine that has run the table; no record is published."""
    shutil.copytree(REFERENCE / "cells", tmp_path / "cluster" / "cells")
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "nothing published")
    (tmp_path / "cluster" / "cells" / "transformer-0f22ae17b101" / "seed1" / "checkpoints").mkdir()
    (tmp_path / "cluster" / "cells" / "transformer-0f22ae17b101" / "seed1" / "checkpoints" / "resume-9.ckpt").touch()
    return tmp_path / "cluster"


def test_the_same_table_on_another_machine(cluster: Path, tmp_path: Path) -> None:
    file, laptop = tmp_path / "t3.tar.gz", tmp_path / "laptop"
    assert len(export_records([TABLE], "mini", cluster, file)) == PUBLISHED >= 3
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
    export_records([TABLE], None, laptop, tmp_path / "again.tar.gz")
    assert (tmp_path / "again.tar.gz").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("here", "there", "replaced"),
    [
        ("failed", "finished", True),
        ("interrupted", "diverged", True),
        ("finished", "diverged", False),
        ("diverged", "finished", False),
        ("finished", "finished", False),
    ],
)
def test_the_better_end_stays(cluster: Path, tmp_path: Path, here: str, there: str, replaced: bool) -> None:
    directory = "transformer-0f22ae17b101/seed1"
    for path in (cluster / "cells").glob("*/seed1/result.json"):
        write_record(path.parent, {**read_json(path), "status": there, "command": "there"})
    export_records([TABLE], "mini", cluster, tmp_path / "file")
    local = tmp_path / "laptop" / "cells" / directory / "result.json"
    write_record(
        local.parent, {**read_json(cluster / "cells" / directory / "result.json"), "status": here, "command": "here"}
    )
    import_records(tmp_path / "file", tmp_path / "laptop")
    assert read_json(local)["command"] == ("there" if replaced else "here")


def test_a_running_cell_is_left_alone(cluster: Path, tmp_path: Path) -> None:
    export_records([TABLE], "mini", cluster, tmp_path / "file")
    directory = RunDirectory(tmp_path / "laptop" / "cells" / "transformer-0f22ae17b101" / "seed1")
    with directory.leased():
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
    odd = sealed({"cell": "transformer-1", "seed": 1}).decode()
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
    sentences = {
        "half": "not a complete file of `highway records export`",
        "text": "not a complete file of `highway records export`",
        "none": "does not exist",
        "escapes": r"contains '\.\./\.\./x', which is not a file of a record",
        "lacks": "has no result.json",
        "odd": f"{name}: result.json has no status",
        "flipped": f"{name}: result.json is corrupt",
        "emptied": f"{name}: config.yaml has changed since it was recorded",
        "other": f"{elsewhere}: result.json belongs to another run",
    }
    for file, sentence in sentences.items():
        with pytest.raises(Refused, match=sentence):
            import_records(tmp_path / file, tmp_path / "laptop")
    assert not (tmp_path / "laptop").exists()


def test_as_typed(tmp_path: Path) -> None:
    typed = partial(commands.typed, "records.py")
    file = str(tmp_path / "records.tar.gz")
    done = typed("export", file, "highway_t3", "--budget", "mini")
    assert (done.returncode, done.stderr) == (0, "") and f"{PUBLISHED} records" in done.stdout
    done = typed("import", file, "--into", str(tmp_path / "there"))
    assert f"{PUBLISHED} records imported, 0 kept as before" in done.stdout
    done = typed("import", str(ROOT / "README.md"))
    assert done.returncode == 2 and done.stderr.startswith("error: ")


# Records from a stranger


NAME = "transformer-0f22ae17b101/seed1"


@pytest.fixture
def record() -> dict[str, bytes]:
    """Return a valid record, for a test to spoil in one respect."""
    folder = REFERENCE / "cells" / NAME
    every = ("config.yaml", "curves.csv", "result.json", "probes/gate_biases.npz")
    return {name: (folder / name).read_bytes() for name in every}


def given(path: Path, *members: tuple[tarfile.TarInfo | str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for named, content in members:
            member = tarfile.TarInfo(named) if isinstance(named, str) else named
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def refused(tmp_path: Path, *members: tuple[tarfile.TarInfo | str, bytes]) -> str:
    """Import the members, check that this is refused and writes nothing, and return the message."""
    with pytest.raises(Refused) as no:
        import_records(given(tmp_path / "file", *members), tmp_path / "laptop")
    assert not (tmp_path / "laptop").exists() and "\n" not in str(no.value)
    return str(no.value)


def of_kind(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def members_of(record: dict[str, bytes]) -> list[tuple[tarfile.TarInfo | str, bytes]]:
    """Return the members of a record with fitting checksums: whoever forges a record can forge these, too."""
    with contextlib.suppress(ValueError, RecursionError):
        result = json.loads(record["result.json"])
        others = {name: content for name, content in record.items() if name != "result.json"}
        result["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in others.items()}
        record = {**others, "result.json": sealed(result)}
    return [(f"{NAME}/{name}", content) for name, content in record.items()]


def test_what_an_archive_may_hold(record: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = members_of(record)
    curves = f"{NAME}/curves.csv"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        assert f"contains '{curves}', which is not a file of a record" in refused(
            tmp_path, *whole[:1], (of_kind(curves, kind), b"")
        )
    arabic = f"{NAME[:-1]}\N{ARABIC-INDIC DIGIT ONE}/curves.csv"
    for name in (f"/{curves}", f"../{curves}", f"{curves}\n", f"{NAME}/checkpoints/best.safetensors", arabic):
        assert "which is not a file of a record; nothing was imported" in refused(tmp_path, *whole, (name, b""))
    assert f"contains '{curves}' twice" in refused(tmp_path, *whole, (curves, b""))
    monkeypatch.setattr("highway.exchange.records.TOTAL", 1 << 20)
    assert "it unpacks to more than 1,048,576 bytes" in refused(
        tmp_path, *whole, (f"{NAME}/probes/zeros.npz", bytes(2 << 20))
    )
    monkeypatch.setattr("highway.exchange.records.LARGEST", 100)
    assert "which is not a file of a record" in refused(tmp_path, *whole)


def test_a_sparse_file_of_zeros_is_no_file(tmp_path: Path) -> None:
    """A sparse member is refused.

    It claims a large size but takes no room in the archive, so no limit on reading helps.
    """
    member = of_kind(f"{NAME}/curves.csv", tarfile.GNUTYPE_SPARSE)
    assert "which is not a file of a record" in refused(tmp_path, (member, b""))


def npz(**arrays: np.ndarray) -> bytes:
    np.savez(file := io.BytesIO(), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def claiming(shape: tuple[int, ...]) -> bytes:
    """Return a file of arrays whose header promises more than the file holds."""
    about = {"shape": shape, "fortran_order": False, "descr": "<f8"}
    np.lib.format.write_array_header_1_0(header := io.BytesIO(), about)
    with zipfile.ZipFile(file := io.BytesIO(), "w") as made:
        made.writestr("a.npy", header.getvalue() + bytes(8))
    return file.getvalue()


def test_a_probe_that_unpacks_to_too_much(
    record: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LARGEST_PROBE", 1 << 20)
    np.savez_compressed(file := io.BytesIO(), a=np.zeros(1 << 20))
    refusal = refused(tmp_path, *members_of({**record, "probes/gate_biases.npz": file.getvalue()}))
    assert f"{NAME}: probes/gate_biases.npz is too large; nothing was imported" in refusal


HEADER = b"step,epoch,seconds,tokens,split,metric,value\n"
BOMB = b"a: &a [1,1,1,1,1,1,1,1]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 8)) for letter in b"bcdefg"
)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("curves.csv", b"step,value\n1,2\n", "curves.csv has other columns than step, epoch, seconds"),
        ("curves.csv", HEADER, "curves.csv has no rows"),
        ("curves.csv", HEADER + b"1,0,0,9,train,loss,low\n", "could not convert string to float"),
        ("curves.csv", HEADER + b"one,0,0,9,train,loss,1\n", "invalid literal for int"),
        ("curves.csv", HEADER + b"1,0,0,train,loss,1\n", "curves.csv cannot be read"),
        ("curves.csv", HEADER + b"1,0,-1,9,train,loss,1\n", "line 2, has a negative or infinite count"),
        ("curves.csv", HEADER + b"1,0,0,9,train,joy,1\n", "line 2, names 'train', 'joy', which is not a curve"),
        ("curves.csv", HEADER + b"1,0,0,9,<script>,loss,1\n", "line 2, names '<script>', 'loss'"),
        ("curves.csv", HEADER + b"9,0,0,9,train,loss,1\n8,0,0,9,train,loss,1\n", "line 3, goes back in its steps"),
        ("curves.csv", HEADER + b"\xff", "curves.csv cannot be read"),
        (
            "config.yaml",
            b"model: !!python/object/apply:os.system [true]",
            "config.yaml cannot be read: it, line 1, is not valid YAML: could not determine a constructor",
        ),
        ("config.yaml", b"[1", "config.yaml cannot be read"),
        ("config.yaml", b"- 1", "config.yaml is not a table of settings"),
        ("config.yaml", BOMB, "config.yaml cannot be read: it has more than 100,000 values, aliases expanded"),
        ("config.yaml", b"[" * 5000, "config.yaml cannot be read: it, line 1: more than 100 values inside one another"),
        ("config.yaml", b"seed: ${oc.env:HOME}", "config.yaml refers to something outside the file"),
        ("config.yaml", b"model: {name: magic}", "config.yaml is refused: model.name=magic is unknown"),
        ("config.yaml", b" " * (1 << 21), "config.yaml cannot be read: it is larger than 1,048,576 bytes"),
        ("probes/gate_biases.npz", b"PK", "is not a file of arrays (BadZipFile)"),
        (
            "probes/gate_biases.npz",
            npz(a=np.array([{}], dtype=object)),
            "contains 'a.npy', which is not an array of numbers",
        ),
        ("probes/gate_biases.npz", npz(a=np.array(["text"])), "contains 'a.npy', which is not an array of numbers"),
        ("probes/gate_biases.npz", claiming((1 << 40,)), "contains 'a.npy', which is not an array of numbers"),
        ("result.json", b"[" * 100_000, "result.json is corrupt or not a record"),
    ],
)
def test_what_a_record_may_say(
    record: dict[str, bytes], tmp_path: Path, file: str, content: bytes, sentence: str
) -> None:
    refusal = refused(tmp_path, *members_of({**record, file: content}))
    assert sentence in refusal and f"file: {NAME}: " in refusal


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"seed: 1", b"seed: 2", "config.yaml has another seed or budget than result.json"),
        (b"width: 64", b"width: 32", "config.yaml belongs to another run"),
    ],
)
def test_a_configuration_is_that_of_its_cell(
    record: dict[str, bytes], tmp_path: Path, old: bytes, new: bytes, sentence: str
) -> None:
    assert record["config.yaml"].count(old + b"\n") == 1
    changed = {**record, "config.yaml": record["config.yaml"].replace(old + b"\n", new + b"\n")}
    assert sentence in refused(tmp_path, *members_of(changed))


def test_every_published_record_would_be_taken() -> None:
    """The import accepts every published record."""
    assert tuple(admission.COLUMNS) == COLUMNS
    for path in REFERENCE.glob("cells/*/seed*/result.json"):
        files = {file.relative_to(path.parent).as_posix(): file for file in path.parent.rglob("*") if file.is_file()}
        contents = {name: file.read_bytes() for name, file in files.items()}
        assert admission.problem(path.parents[1].name, read_json(path), contents) is None, path


def test_an_imported_record_has_curves(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without weights loads in any folder, without a cache; an unknown curve is refused in one sentence."""
    monkeypatch.chdir(tmp_path)
    export_records([TABLE], "mini", cluster, tmp_path / "t3.tar.gz")
    (name, *_) = import_records(tmp_path / "t3.tar.gz", tmp_path / "laptop").new
    before = sorted(tmp_path.rglob("*"))
    record = highway.load(tmp_path / "laptop" / "cells" / name)
    steps, values = record.curve("valid", "loss")
    assert len(steps) == len(values) > 3 and steps[0] < steps[-1]
    with pytest.raises(Refused, match=r"has no curve 'valid los'. Did you mean 'valid loss'\? Available: train loss, "):
        record.curve("valid", "los")
    with pytest.raises(Refused, match="is a record without weights, so it has no logits"):
        record.logits("the")
    with pytest.raises(Refused, match="Name the directory of a run that has been trained"):
        highway.load(tmp_path / "laptop" / "cells" / name, last=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_every_published_record_is_valid() -> None:
    paths = list(REFERENCE.glob("cells/*/seed*/result.json"))
    assert paths and [path for path in paths if read_record(path) is None] == []
