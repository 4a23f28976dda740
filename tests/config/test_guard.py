"""A stranger's configuration runs no code of its own, and no secret gets into files that are kept or passed on."""

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from highway.commands import cli
from highway.config import compose
from highway.config.experiment import Experiment
from highway.config.guard import check_hydra
from highway.errors import Refused
from highway.run.checkpoint import save_weights
from highway.site.build import build_site
from highway.sweep import grid
from highway.sweep.reading import parse_table
from highway.sweep.shell import quoted
from highway.testing.runs import trained
from highway.use.load import load
from tests.support.overrides import TINY

Compose = Callable[..., Experiment]
ROOT = Path(__file__).parents[2]
SECRET = "a4f0c2e9secretkeyofwandb0123456789abcdef"  # 40 characters, as W&B's keys have
FEW = ("trainer.max_steps=2", "trainer.validate_every=2")
ALIASES = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 11)}]\n" for n in range(1, 6))


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run `highway train` in this process, in its own folder; return the exit code and the errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.train()
        return int(str(end.value.code or 0)), capfd.readouterr().err

    return run


def payload(target: str) -> dict[str, object]:
    return {"_target_": target, "_args_": ["owned", "w"]}


ROADS = {  # top-level keys of a file in the group `optimizer`, beside the settings that it seems to be about
    "a callback": {"callbacks": {"x": payload("builtins.open")}},
    "a callback through torch": {"callbacks": {"x": payload("torch.serialization.open")}},
    "a callback through ours": {"callbacks": {"x": payload("highway.commands.cli.os.system")}},
    "a launcher": {"launcher": payload("os.open")},
    "inside a launcher": {"launcher": {"slots": payload("os.open")}},
    "a sweeper": {"sweeper": payload("hydra_plugins.highway_sweep.Path")},
    "a factory of a handler": {
        "job_logging": {"root": {"handlers": ["x"]}, "handlers": {"x": {"()": "builtins.open", "file": "owned"}}}
    },
    "a class of a handler": {
        "hydra_logging": {
            "root": {"handlers": ["x"]},
            "handlers": {"x": {"class": "logging.FileHandler", "filename": "owned"}},
        }
    },
    "the environment": {"job": {"env_set": {"LD_PRELOAD": "owned.so"}}},
}


@pytest.mark.parametrize("sweep", [False, True], ids=["run", "sweep"])
@pytest.mark.parametrize("road", ROADS)
def test_a_file_runs_nothing(typed: Callable[..., tuple[int, str]], tmp_path: Path, road: str, sweep: bool) -> None:
    folder = tmp_path / "theirs" / "debug"
    folder.mkdir(parents=True)
    text = yaml.safe_dump({"hydra": ROADS[road], "debug": {"trace": False}})
    (folder / "faster.yaml").write_text(f"# @package _global_\n{text}")
    code, err = typed(*["-m"] * sweep, "-cd", "theirs", "debug=faster")
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1, err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_same_roads_are_open_where_nobody_looks(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without our check Hydra opens a handler's file, so the test above would notice its absence."""
    monkeypatch.setattr(compose, "GuardedHydra", compose.GuardedHydra.__base__)
    folder = tmp_path / "theirs" / "debug"
    folder.mkdir(parents=True)
    text = yaml.safe_dump({"hydra": ROADS["a class of a handler"]})
    (folder / "faster.yaml").write_text(f"# @package _global_\n{text}")
    typed("-cd", "theirs", "debug=faster", "seed=-1")
    assert (tmp_path / "owned").exists()


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
def test_nor_do_words(typed: Callable[..., tuple[int, str]], tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, err = typed(*arguments)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1, err
    assert not list(tmp_path.iterdir())


def test_a_target_is_looked_at_as_it_resolves() -> None:
    hydra = OmegaConf.create(
        {
            "hydra": {
                "launcher": "${hydra.other}",
                "other": {"_target_": "os.system"},
                "sweeper": {"_target_": "hydra_plugins.highway_sweep.HighwaySweeper"},
                "verbose": False,
            }
        }
    )
    OmegaConf.update(hydra, "hydra.callbacks", {})
    OmegaConf.update(hydra, "hydra.job", {"env_set": {}})
    with pytest.raises(Refused, match=r"os\.system is no launcher of this project"):
        check_hydra(hydra.hydra)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("!!python/object/apply:os.system ['touch owned']", "the configuration cannot be read"),
        ("just words", "the configuration cannot be read"),
        ("a: [", "the configuration cannot be read"),
        (ALIASES, "the configuration cannot be read"),
        ("optimizer: {_target_: os.system}", "model.name=null is unknown"),
        ("logger: {group: '${oc.env:WANDB_API_KEY}'}", "model.name=null is unknown"),
    ],
    ids=["object", "text", "half", "aliases", "target", "secret"],
)
def test_a_header_of_weights(config: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_weights(torch.nn.Linear(1, 1), tmp_path / "theirs.safetensors", {"run": "x/seed1", "config": config}, step=1)
    with pytest.raises(Refused, match=sentence):
        load(tmp_path / "theirs.safetensors")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("word", ["logger.group", "logger.project", "budget", "outputs_dir", "seed"])
def test_no_setting_reads_a_secret(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    folder = tmp_path / "theirs" / "debug"
    folder.mkdir(parents=True)
    for number, value in enumerate(("${oc.env:WANDB_API_KEY}", "${oc.${x}:WANDB_API_KEY}")):
        text = yaml.safe_dump(OmegaConf.to_container(OmegaConf.from_dotlist([f"{word}={value}"])))
        (folder / f"faster{number}.yaml").write_text(f"# @package _global_\n{text}x: env\n")
        code, err = typed("-cd", "theirs", f"debug=faster{number}")
        assert code == 2 and err.count("\n") == 1 and SECRET not in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_no_secret_in_what_a_run_leaves(
    tiny: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_SILENT", "true")
    mirrored = tiny(*FEW, "logger=wandb", "logger.wandb=offline")
    _, record = trained(mirrored)
    assert record["status"] == "finished", record["error"]
    settings = {word.split("=", 1)[0]: [word.split("=", 1)[1]] for word in (*TINY, *FEW)}
    table = grid.as_table("mine", "a command", settings, [mirrored])
    grid.keep(table, tmp_path / "outputs")
    build_site(tmp_path / "outputs", [parse_table(table)])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files) and any("offline-run" in str(path) for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in caplog.text and SECRET not in json.dumps(record)


@pytest.mark.parametrize("name", [r"back\slash", "it's", 'a "quote"', "${HOME}", r"\${x}", "a b", "größe", "a,b=c"])
def test_folders_with_odd_names(
    typed: Callable[..., tuple[int, str]],
    tiny: Compose,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A folder may have an odd name, from the environment or in the overrides that a launcher writes."""
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path / name))
    code, err = typed(*words_of_a_run())
    assert code == 0, err
    (directory,) = (tmp_path / name / "cells").glob("*/seed1")
    assert (directory / "result.json").exists()
    monkeypatch.setenv("HIGHWAY_OUTPUTS", str(tmp_path / "elsewhere"))
    again = (f"outputs_dir={quoted(str(tmp_path / name))}", f"hydra.run.dir={quoted(str(directory))}")
    code, err = typed(*words_of_a_run(), *again)
    assert code == 0 and "finished already" in err, err
    assert not (tmp_path / "elsewhere").exists()


def words_of_a_run() -> list[str]:
    settings = {word.split("=", 1)[0]: word for word in (*TINY, *FEW)}
    return list(settings.values())


def test_yaml_and_arrays_and_checkpoints_are_read_as_data() -> None:
    """Nothing in the project reads a file in a way that lets the file name code."""
    wrong = []
    for path in [*(ROOT / "highway").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(name.name for name in node.names)]
                wrong += [f"{path.name}: {name}" for name in names if name in ("pickle", "marshal", "shelve", "dill")]
            if not isinstance(node, ast.Call):
                continue
            call, keys = ast.unparse(node.func), {key.arg: ast.unparse(key.value) for key in node.keywords}
            unsafe = call in ("yaml.load", "yaml.full_load", "yaml.unsafe_load", "eval", "exec", "OmegaConf.load")
            unsafe |= call == "torch.load" and keys.get("weights_only") != "True"
            unsafe |= call == "np.load" and "allow_pickle" in keys
            wrong += [f"{path.name}: {call}"] * unsafe
    assert wrong == []
