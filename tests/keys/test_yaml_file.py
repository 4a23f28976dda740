"""Mistakes in YAML files are refused, and the sentence names the file and the line."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from highway.config.compose import experiment
from highway.errors import Refused
from highway.keys.yaml_file import as_yaml, parsed, read_yaml


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "x.yaml, line 5: 'c' is given twice, first in line 3."),
        (b"a: 1\n'a': 2\n", "x.yaml, line 2: 'a' is given twice, first in line 1."),
        (b"a: 1\nb: caf\xe9\n", "x.yaml, line 2, is not UTF-8 text. Save the file as UTF-8."),
        (b"a: 1\nb: [1\n", "x.yaml, line 3, is not valid YAML"),
        (b"a: 1\nb: !!python/object/apply:os.system [true]\n", "x.yaml, line 2, is not valid YAML"),
        (b"a: \x00\n", "x.yaml is not valid YAML"),
        (b"? [a]\n: 1\n", "x.yaml, line 1, is not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "x.yaml, line 2, is not valid YAML"),
    ],
)
def test_what_is_refused(text: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(text)
    with pytest.raises(Refused) as refusal:
        read_yaml(tmp_path / "x.yaml")
    assert sentence in str(refusal.value) and "\n" not in str(refusal.value)


def test_aliases_and_merged_keys_are_read() -> None:
    text = b"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\nd: {<<: *a}\n"
    assert parsed(text, "x").content == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2},
        "d": {"x": 1, "y": 2},
    }
    assert parsed(b"", "x").content is None


def test_numbers_are_read_as_hydra_reads_them() -> None:
    text = "a: [1e-4, 2E5, -1.5e3, 1.5, 12, 1_000, .5, 1e, e4, 1:00, 2026-11-27, yes]"
    assert parsed(text.encode(), "x").content == OmegaConf.to_container(OmegaConf.create(text))


def test_a_value_has_the_line_of_its_innermost_key() -> None:
    file = parsed(b"a: 1\nb:\n  - {id: q,\n     c: 2}\n  - 3\n", "x.yaml")
    lines = [file.line_of(path) for path in ([], ["a"], ["b", 0, "c"], ["b", 1], ["b", 0, "d"], ["d", "a"])]
    assert lines == ["x.yaml", "x.yaml, line 1", "x.yaml, line 4", "x.yaml, line 2", "x.yaml, line 2", "x.yaml"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"residual: none\nresidual: sdu\n", "line 2, is not valid YAML: found duplicate key residual"),
        (b"residual: none\nkernel: [1\n", "line 3, is not valid YAML: .*expected"),
    ],
)
def test_a_file_that_hydra_reads(text: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "mine.yaml").write_bytes(text)
    with pytest.raises(Refused, match=rf"gate/mine\.yaml, {sentence}"):
        experiment([f"hydra.searchpath=[file://{tmp_path}]", "gate=mine"])


def test_what_is_written_is_read_back() -> None:
    content = {"values": ["1e-4", "1e5", 1e-4, "yes", None, True, "a: b", 12, "12"]}
    assert parsed(as_yaml(content).encode(), "x").content == content
