"""A stranger's configuration runs no code of its own and reads no secret, before Hydra or anything else acts on it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from highway.cli import main
from highway.errors import Refused
from highway.python.load import load
from highway.run.checkpoint import save_weights
from highway.tables.typed import quoted
from tests.support.overrides import TINY

REFUSED = re.compile(r"error: .*(hydra\.|_target_|no launcher of|no sweeper of).*\n")
Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    """Run `highway train` in this process, in its own folder; return the exit code and the errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        with pytest.raises(SystemExit) as end:
            main("train")
        return int(str(end.value.code or 0)), capfd.readouterr().err

    return run


def write_theirs(folder: Path, content: dict[str, object]) -> None:
    """Write a stranger's file into the group `debug`: it seems to be about a run's debugging only."""
    path = folder / "theirs" / "debug" / "faster.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# @package _global_\n{yaml.safe_dump(content)}")


def payload(target: str) -> dict[str, object]:
    return {"_target_": target, "_args_": ["owned", "w"]}


HANDLER = {"root": {"handlers": ["x"]}, "handlers": {"x": {"()": "builtins.open", "file": "owned"}}}
FILE_HANDLER = {"root": {"handlers": ["x"]}, "handlers": {"x": {"class": "logging.FileHandler", "filename": "owned"}}}
ROADS = {  # of Hydra's settings in a file: a name for the test, and whether the file is used in a sweep
    ("a callback", False): {"callbacks": {"x": payload("builtins.open")}},
    ("a callback of a sweep", True): {"callbacks": {"x": payload("torch.serialization.open")}},
    ("a launcher", True): {"launcher": payload("os.open")},
    ("inside a launcher", True): {"launcher": {"slots": payload("os.open")}},
    ("a launcher by interpolation", True): {"launcher": "${hydra.other}", "other": payload("os.open")},
    ("a sweeper", True): {"sweeper": payload("hydra_plugins.highway_sweep.Path")},
    ("a factory of a handler", False): {"job_logging": HANDLER},
    ("a class of a handler", False): {"hydra_logging": FILE_HANDLER},
    ("the environment", False): {"job": {"env_set": {"LD_PRELOAD": "owned.so"}}},
    ("the environment of a sweep", True): {"job": {"env_set": {"LD_PRELOAD": "owned.so"}}},
}


@pytest.mark.parametrize(("road", "sweep"), ROADS)
def test_a_file_runs_nothing(typed: Typed, tmp_path: Path, road: str, sweep: bool) -> None:
    write_theirs(tmp_path, {"hydra": ROADS[road, sweep], "debug": {"trace": False}})
    code, err = typed(*["-m"] * sweep, "-cd", "theirs", "debug=faster")
    assert code == 2 and REFUSED.fullmatch(err), err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("+hydra.callbacks.x={_target_:os.system,command:'touch owned'}",),
        ("-m", "hydra.launcher._target_=os.system", "gate=none"),
        ("-m", "++hydra.launcher.slots={_target_:os.system,command:'touch owned'}", "gate=none"),
        ("-m", "hydra.sweeper._target_=hydra_plugins.highway_sweep.LocalLauncher", "gate=none"),
        ("+hydra.job.env_set.PYTHONPATH=.",),
        ("++optimizer._target_=os.system",),
        ("+_target_=os.system",),
    ],
)
def test_nor_do_overrides(typed: Typed, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, err = typed(*arguments)
    assert code == 2 and REFUSED.fullmatch(err), err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("!!python/object/apply:os.system ['touch owned']", "the configuration cannot be read"),
        ("just words", "the configuration cannot be read"),
        ("a: [", "the configuration cannot be read"),
        ("optimizer: {_target_: os.system}", "model.name=null is unknown"),
        ("logger: {group: '${oc.env:WANDB_API_KEY}'}", "model.name=null is unknown"),
    ],
    ids=["object", "text", "half", "target", "secret"],
)
def test_a_header_of_weights(config: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_weights(torch.nn.Linear(1, 1), tmp_path / "theirs.safetensors", {"run": "x/seed1", "config": config}, step=1)
    with pytest.raises(Refused, match=sentence):
        load(tmp_path / "theirs.safetensors")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("key", ["logger.group", "outputs_dir"])
def test_no_setting_reads_a_secret(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a secret")
    for value in ("${oc.env:WANDB_API_KEY}", "${oc.${logger.project}:WANDB_API_KEY}"):
        typed_settings = [f"{key}={value}", "logger.project=env", "debug.trace=false"]
        settings = OmegaConf.to_container(OmegaConf.from_dotlist(typed_settings))
        write_theirs(tmp_path, settings)  # type: ignore[arg-type]
        code, err = typed("-cd", "theirs", "debug=faster")
        assert code == 2 and err.count("\n") == 1 and "a secret" not in err, err
        assert "a configuration may read only these environment variables" in err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_folder_may_have_an_odd_name(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name comes from the environment, or stands in the overrides that a launcher writes."""
    folder = tmp_path / r"""back\slash, it's a "größe"=${HOME} \${x}"""
    settings = (*TINY, "trainer.max_steps=2", "trainer.validate_every=2")
    overrides = {override.split("=", 1)[0]: override for override in settings}.values()
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(folder))
    code, err = typed(*overrides)
    assert code == 0, err
    (directory,) = (folder / "cells").glob("*/seed1")
    assert (directory / "result.json").exists()
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path / "elsewhere"))
    code, err = typed(*overrides, f"outputs_dir={quoted(str(folder))}")
    assert code == 0 and "finished already" in err, err
    assert not (tmp_path / "elsewhere").exists()
