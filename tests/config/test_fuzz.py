"""Arbitrary settings give an experiment or a one-sentence refusal, and never another exception.

The examples are the same in every run (derandomize), so that a test that passes here passes everywhere.
"""

import json
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.config.check import check, flat
from highway.config.compose import compose, experiment
from highway.config.experiment import Experiment
from highway.config.groups import groups, options
from highway.config.sections import ROOT, SECTIONS, kinds_of
from highway.config.sentences import sentence
from highway.errors import Refused
from highway.ledger.identity import configuration, identified
from highway.ledger.record import read_record
from highway.sweep.typed import quoted

REFUSALS = (Refused, HydraException, OmegaConfBaseException)
KEYS = [
    *ROOT,
    *(
        f"{section}.{key}"
        for section in ("model", "dataset", *SECTIONS)
        for kind in kinds_of(section)
        for key in flat(kind().model_dump())
    ),
]
ODD = ["", " ", "null", "nan", "-inf", "1e400", "true", "???", "${seed}", "${oc.env:HOME}", "${", "[", "l1-3", "\0"]
texts = st.text(max_size=12) | st.sampled_from(ODD)
scalars = st.none() | st.booleans() | st.integers() | st.integers(-3, 70) | st.floats() | texts
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
known = st.sampled_from(KEYS)
OPTIONS = [f"{group}={option}" for group in groups() if group != "hydra" for option in (*options(group), "null")]
overrides = (
    st.sampled_from(OPTIONS)
    | st.builds("{}{}={}".format, st.sampled_from(["", "+", "++"]), known, values.map(str))
    | st.builds("{}={}".format, known, texts.map(quoted))
    | st.builds("{}={}".format, texts, texts)
    | st.builds("~{}".format, known)
    | texts
)
STARTS = {
    "text": [],
    "pairs": ["model=encoder_decoder", "dataset=iwslt_pt_en", "gate=g1"],
    "memory": ["model=transformer_xl", "dataset=enwik8"],
    "music": ["model=tcn_music", "dataset=nottingham"],
}
composed: dict[str, DictConfig] = {}


def examples(count: int) -> Any:
    """Return settings without a database of examples or a deadline, so that every run is the same."""
    slow = list(HealthCheck)
    return settings(max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=slow)


def assert_one_sentence(error: BaseException) -> None:
    said = sentence(error)
    assert said.strip() and len(said.splitlines()) == 1, repr(said)


@examples(6)
@given(st.lists(overrides, max_size=4))
def test_any_command_line_is_refused_in_one_sentence_or_describes_a_run(line: list[str]) -> None:
    try:
        described = experiment(line)
    except REFUSALS as error:
        assert_one_sentence(error)
    else:
        assert isinstance(described, Experiment)


@examples(50)
@given(st.sampled_from(list(STARTS)), st.dictionaries(known, values, max_size=3))
def test_any_values_are_refused_in_one_sentence_or_identify_a_run(name: str, changes: dict[str, Any]) -> None:
    if name not in composed:
        composed[name] = compose(STARTS[name])
    config = composed[name].copy()
    OmegaConf.set_struct(config, False)
    for key, value in changes.items():
        try:
            OmegaConf.update(config, key, value)
        except (OmegaConfBaseException, AssertionError, TypeError):  # OmegaConf itself refuses the value
            return
    try:
        actual = check(config)
    except REFUSALS as error:
        assert_one_sentence(error)
    else:
        assert identified(actual) and json.dumps(configuration(actual))


@examples(150)
@given(st.text(st.sampled_from("\\'\"${}ab =,:~[]") | st.characters(exclude_categories=("C",)), max_size=20))
def test_a_quoted_value_is_read_back(text: str) -> None:
    config = OmegaConf.create({"x": None})
    config.x = OverridesParser.create().parse_override(f"x={quoted(text)}").value()
    assert config.x == text


@examples(50)
@given(st.binary(max_size=200) | values.map(lambda content: json.dumps(content).encode()[:-1]))
def test_any_bytes_are_no_record(tmp_path_factory: Any, content: bytes) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "result.json"
    path.write_bytes(content)
    assert read_record(path) is None
