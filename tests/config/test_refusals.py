"""Wrong command lines give one sentence, exit code 2 and no stack trace, and leave nothing behind.

They run in this process, as `highway` would; one test runs two as a user's shell does.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from highway.cli import main

PAIRS = "model=encoder_decoder dataset=iwslt_pt_en"

WRONG = {  # arguments of train.py, and text that their message must contain
    # groups
    "gate=sdu_tan": "Did you mean 'sdu_tanh'",
    "model=transformr": "Did you mean 'transformer'",
    "dataset=ptb_chars": "Did you mean 'ptb_char'",
    "layers=first": "layers has all, none, attention_only, l1, l1-3 or any other range.",
    "layers=l1-9": "names layer 4, but the model has layers 1 to 3",
    "layers=2": "layers=2 names no option of layers. Options of layers: all",
    "optimizer=adma": "Did you mean 'adam'",
    "budget=huge": "medium, mini, paper, smoke",
    "trainer=fast": "default",
    "logger=tensorboard": "files, wandb",
    "debug=on": "none, overfit",
    "gate=null": "gate=null names no option of gate",
    "model=null": "model=null names no option of model",
    "layers=NULL": "layers=NULL names no option of layers",
    "gate=": "gate= names no option of gate",
    "gate=[none,sdu_tanh]": "names no option of gate",
    "model={name:tcn}": "names no option of model",
    "model=../table/highway_t1": "names no option of model",
    "model=os.system": "model=os.system does not exist",
    "budget=../table/highway_t1": "names no option of budget",
    "hydra/launcher=k8s": "inline, local",
    "hydra/launcher=basic": "no launcher of this project. Options of hydra/launcher: inline, local",
    "hydra/launcher=null": "names no option of hydra/launcher",
    "hydra/sweeper=basic": "no sweeper of this project",
    "hydra/job_logging=default": "of Hydra's own groups only hydra/launcher",
    "gate@_global_=sdu_tanh": "neither a key nor a group",
    "+table=highway_t1": "table",
    # keys
    "gat=sdu_tanh": "Did you mean 'gate'",
    "modle.width=4": "Did you mean 'model'",
    "sed=1": "Did you mean 'seed'",
    "epochs=3": "neither a key nor a group",
    "feed_forward=3": "Did you mean model.feed_forward or layers.feed_forward?",
    "lr=3": "Did you mean optimizer.lr?",
    "model.widht=64": "Did you mean 'width'",
    "trainer.max_epoch=3": "Did you mean 'max_epochs'",
    "optimizer.learning_rate=1": "optimizer has",
    "dataset.train.lane=4": "Did you mean 'lanes'",
    "optimizer.plateau.factor=2": "optimizer.plateau has",
    "+model.depth=3": "model.depth is not a key",
    "model.depth=2": "model.depth is a key of rhn only. Choose an option of model that has it, or leave it out",
    "+extra=1": "'extra' is not a key",
    "++extra=1": "'extra' is not a key",
    "~gate": "would remove a key",
    "~model": "Leave it out",
    "~seed": "Leave it out",
    "~data_dir": "Leave it out",
    "hydra.nothing=1": "only hydra.launcher.* and hydra.searchpath can",
    # values
    "model.width=wide": "must be a whole number",
    "model.width=null": "model.width=null must be a whole number",
    "model.width=nan": "must be a whole number",
    "model.width=1e9": "must be a whole number",
    "model.width=[512]": "must be a whole number",
    "model.width=": "model.width= must be a whole number",
    "model.width=-1": "at least 1",
    "model.width=99999999999999999999": "from 1 to 2147483647",
    "model.width=???": "model.width has no value",
    "model.width=${nothing}": "nothing",
    "model.width=${model.width}": "Recursive interpolation",
    "model.layers=3.5": "must be a whole number",
    "model.layers=1000000000": "from 1 to 1000",
    "trainer.max_epochs=many": "trainer.max_epochs",
    "trainer.max_epochs=null": "must be a whole number",
    "trainer.max_steps=1.5": "must be a whole number or null",
    "trainer.max_steps=0": "at least 1",
    "trainer.compile=perhaps": "Available: auto, default, reduce-overhead, max-autotune, whole",
    "trainer.compile=1": "Available: auto, default, reduce-overhead, max-autotune, whole",
    "trainer.compile=reduce-overhead trainer.accumulate=2": "use trainer.compile=default or trainer.accumulate=1",
    "trainer.precision=null": "Available: 32, bf16, 64",
    "trainer.threads=1000000": "from 1 to 1024",
    "optimizer.lr=inf": "must be a finite number",
    "optimizer.lr=nan": "must be a finite number",
    "optimizer.lr=1e400": "must be a finite number",
    "optimizer.clip=-1": "at least 0",
    "optimizer=adam optimizer.betas=0.9": "must be a list",
    "optimizer=adam optimizer.betas=null": "must be a list",
    "optimizer=adam optimizer.betas=[0.9]": "two numbers",
    "optimizer=adam optimizer.betas=[0.9,1.5]": "[0, 1)",
    "optimizer=adam optimizer.betas=[0.9,x]": "optimizer.betas[1]=x must be a finite number",
    "optimizer=adam optimizer.betas=[[1],2]": "optimizer.betas[0]=[1] must be a finite number",
    "optimizer.plateau=3": "optimizer.plateau=3 must be keys with values",
    "optimizer.plateau.window=0": "at least 1",
    "model.dropout=1.5": "from 0 to 0.999",
    "model.dropout=-0.1": "from 0 to 0.999",
    "model.layers=0": "from 1 to 1000",
    "model=tcn model.layers=100": "from 1 to 24",
    "trainer.devices=0": "at least 1",
    "trainer.threads=0": "from 1 to 1024",
    "model.heads=7": "not a multiple of model.heads=7",
    "model.norm=middle": "pre, post",
    "trainer.precision=16": "32, bf16, 64",
    "trainer.accelerator=quantum": "auto, cpu, gpu",
    "gate.residual=sdo gate.activation=tanh": "sdu",
    "gate.activation=relu": "sigmoid, tanh, one, identity",
    "gate.score=null": "must be keys with values",
    "logger.group=[1]": "must be a text or null",
    # layers
    "layers=l3-6": "names layer 4, but the model has layers 1 to 3",
    "layers.attention=[1,5]": "names layer 5",
    "layers.attention=[0]": "names layer 0",
    "layers.attention=l3-1": "Write l1-3",
    "layers.attention=null": "takes layer numbers, and null is not one",
    "layers.attention=1.5": "takes layer numbers, and 1.5 is not one",
    "layers.attention=''": "takes all, none, a range",
    "layers.attention={a:1}": "takes layer numbers",
    "layers.attention=l99999999999": "names layer 99999999999",
    "layers.attention=l1-99999999999": "names layer 4",
    "layers.feed_forward=top": "a range such as l1-3",
    "layers.attention=[1,1]": "twice",
    # incompatible settings
    "gate=sdu_tanh gate.reads=normalised model.norm=post": "needs model.norm=pre",
    "gate=highway gate.inside_dropout=true": "of its own to the sublayer. Gates that do: sdu, sdu_conv.",
    "model=r_transformer model.dropout_positions=0.1": "model.dropout_positions is a key of transformer only",
    "model=gru dataset=nottingham model.input=88 model.tied=false": "Leave model.tied=true",
    "model=lstm model.input=5": "or model.tied=false",
    "dataset.form=words": "eos, newline, joined, characters, word",
    "dataset.source=network": "files, sample",
    "dataset.metric=accuracy": "bpc, ppl",
    "dataset=mnist dataset.metric=bleu": "Available: accuracy",
    "dataset.train=3": "must be keys with values",
    "dataset.train.scored=500": "longer than the window of 400",
    "dataset.train.stride=400": "which skips symbols",
    "dataset.carry_state=true": "without overlap",
    "dataset=enwik8": "transformer has no memory: set dataset.train.memory=0",
    "dataset.train.memory=5": "needs dataset.carry_state=true",
    "dataset.evaluation.same_length=true": "needs dataset.evaluation.memory above 0",
    "model=transformer_xl dataset=enwik8 gate=sdu_conv_tanh": "continues from a memory of segments before",
    "model=transformer_xl dataset=enwik8 layers=l1-6 model.layers=4": "names layer 5",
    "model=transformer_xl model.norm_deviation=biased": "norm_deviation",
    "gate=g1": "transformer has no location for the score gate gated",
    "model=lstm gate=hsg gate.state.dropped=false": "gate.state.dropped=false: recurrent has no dropout on its state",
    "model=encoder_decoder": "encoder_decoder reads a source and its target, and penn_treebank is language data",
    "dataset=iwslt_pt_en": "iwslt_pt_en is translation data",
    f"{PAIRS} gate=sdu_conv_tanh": "continues from what it has decoded before",
    f"{PAIRS} gate=g1 gate.score.length=32": "too small for texts of 64 positions: set gate.score.length=64 or more",
    f"{PAIRS} gate=g1 gate.score.attention=[]": "is empty. Name at least one of encoder, decoder, cross",
    f"{PAIRS} gate=g1 gate.score.attention=[[1]]": "gate.score.attention[0]=[1] must be a text",
    f"{PAIRS} gate.score.attention=[top]": "encoder, decoder, cross",
    f"{PAIRS} dataset.corpora=[news]": "Available: tatoeba",
    f"{PAIRS} dataset.corpora=tatoeba": "must be a list, as in [a,b]",
    f"{PAIRS} dataset.pieces.files=[300]": "two numbers",
    f"{PAIRS} dataset.pieces.files=[0,0]": "two numbers above 4",
    f"{PAIRS} dataset.batch_pieces=9": "holds no sentence of 64 pieces",
    f"{PAIRS} dataset.train.lanes=2": "train",
    "optimizer.schedule=inverse_square_root": "optimizer.warmup_steps",
    "trainer.devices=17": "trainer.devices=17 is more than dataset.train.lanes=16",
    "trainer.accumulate=0": "at least 1",
    "trainer.devices=5 trainer.accumulate=4": "trainer.devices=5 times trainer.accumulate=4 is more than",
    # seeds, folders, loggers
    "seed=-1": "from 0 to 9223372036854775807",
    "seed=one": "seed=one",
    "seed=1.0": "must be a whole number",
    "seed=true": "must be a whole number",
    "seed=": "must be a whole number",
    "seed=9223372036854775808": "from 0 to 9223372036854775807",
    "seed='${oc.env:HOME}'": "a configuration may read only these environment variables: HIGHWAY_DATA, HIGHWAY_OUTPUTS",
    "outputs_dir=": "outputs_dir= must be a folder",
    "outputs_dir=null": "outputs_dir=null must be a folder",
    "outputs_dir=[a]": "must be a folder",
    "data_dir={a:1}": "must be a folder",
    "logger.wandb=cloud": "offline, online or null",
    "logger.project=../../x": "cannot name a W&B project",
    "hydra.searchpath=[pkg://this]": "Write one, as in hydra.searchpath=[my/conf]",
    "hydra=null": "of Hydra's own groups only hydra/launcher can be chosen",
    "~trainer.max_steps": "Perhaps you mean trainer.max_steps=null",
    "--hydra-help": "--hydra-help is no option of highway train. Did you mean '--help'",
    # Hydra's own settings
    "hydra.mode=MULTIRUN": "hydra.mode=MULTIRUN cannot be set. Add -m",
    "hydra.run.dir=elsewhere dataset.source=sample": "Write outputs_dir=FOLDER to choose where runs are kept",
    "hydra.sweep.dir=elsewhere": "Write outputs_dir=FOLDER to choose where runs are kept",
    "hydra.output_subdir=.hydra": "hydra.output_subdir=.hydra cannot be set",
    "hydra.job.chdir=true": "hydra.job.chdir=true cannot be set",
    "hydra.verbose=true": "hydra.verbose=true cannot be set",
    "hydra.searchpath=[/nowhere]": "/nowhere is not available",
    # the syntax of overrides
    "''": "'' sets nothing",
    "'   '": "sets nothing",
    "=1": "'=1' sets nothing",
    "=": "'=' sets nothing",
    "model..width=3": "key=value",
    "model.=3": "key=value",
    "gate": "key=value",
    "model.width==3": "model.width==3 could not be read",
    "model.width=3=4": "model.width=3=4 could not be read",
    "model.width=[1": "model.width=[1 could not be read",
    "größe=3": "could not be read",
    "'seed=1;2'": "could not be read",
    # flags
    "--config": "config",
    "--epochs=3": "without dashes",
    "--dry-run": "--dry-run is no option of highway train. Did you mean plan=true?",
    "-mr": "-r is no option of highway train",
    "-m=1": "= is no option",
    "--resolve": "add --cfg job",
    "--package model": "--package is no option of highway train",
    "--cfg": "Option '--cfg' requires an argument.",
    "--cfg nonsense": "'nonsense' is not one of 'job'.",
    "--info config": "--info is no option of highway train",
    "-m --cfg job": "leave out -m or --cfg",
    "--run": "--run is no option of highway train",
    "-cd": "requires an argument",
    "-cd nowhere": "not found",
    "-cp nowhere": "'p' is not one of 'job'",
    "-cn nothing": "'n' is not one of 'job'",
    "--experimental-rerun config.pickle": "--experimental-rerun is no option of highway train",
    # sweeps
    "table=highway_t1": "add -m",
    "table=null": "table=null names no option",
    "-m table=highway_t7": "highway_t7 is measured, not trained. Type highway table time highway_t7 --budget paper.",
    "seeds=1,2": "add -m",
    "plan=true": "add -m",
    "gate=none,sdu_tanh": "add -m",
    "-m table=null": "table=null names no option of table",
    "-m table=highway_t9": "highway_t1, highway_t2",
    "-m table=[highway_t1]": "names no option of table",
    "-m table=highway_t1 table=highway_t2": "table= is given twice. Write several values with commas",
    "-m table=highway_t1 budget=mni": "Did you mean 'mini'",
    "-m table=highway_t1 budget=null": "budget=null names no option",
    "-m table=highway_t1 seeds=one": "must be a whole number",
    "-m table=highway_t1 seeds=": "must be a whole number",
    "-m table=highway_t1 seeds=-1": "must be a whole number",
    "-m table=highway_t1 seeds=[1,2]": "must be a whole number",
    "-m table=highway_t1 seeds=1,2 seed=5": "Choose the seeds of a table with seeds=1,2,3",
    "-m table=highway_t1 seeds=9223372036854775808": "from 0 to 9223372036854775807",
    "-m table=highway_t1 rows=tann": "Did you mean 'tanh'",
    "-m table=highway_t1 rows=": "has no row ''",
    "-m 'table=highway_t1' 'rows=glob(*)'": "gives no value",
    "-m table=highway_t1 extra_rows=some": "true, false",
    "-m table=highway_t1 plan=maybe": "true, false",
    "-m gate=none fail_fast=perhaps": "it takes true, false",
    "-m gate=none retry_failed=2": "it takes true, false",
    "-m table=highway_t1 name=mine": "Leave name= out",
    "-m gate=none gate.activation=tanh,sigmoid dataset.source=sample": "gate.activation=tanh,sigmoid changes nothing",
    "-m table=highway_t1 budget=smoke optimizer.plateau.window=3 optimizer=adam": "no run of this sweep reads it",
    "-m table=highway_t1 model.widht=3": "Did you mean 'width'",
    "-m table=highway_t1,highway_t7 budget=smoke": "Type highway table time highway_t7 --budget smoke.",
    "-m seeds=1,2 gate=none": "needs table=",
    "-m gate=none,sdu_tan": "Did you mean 'sdu_tanh'",
    "-m gate=none,": "could not be read",
    "-m gate=null,none": "gate=null names no option",
    "-m ''": "sets nothing",
    "-m 'gate=glob(*)'": "transformer has no location for the score gate",
    "-m 'seed=interval(1,3)'": "does not list its values",
    "-m 'seed=range(0)'": "gives no value",
    "-m 'seed=range(1,3,0)'": "does not list its values",
    "-m 'seed=range(0,1000000000)'": "more than 50,000 runs",
    "-m seed=1,two": "seed=two must be a whole number",
    "-m name=../x seed=1": "cannot name a folder",
    "-m name=.. seed=1": "cannot name a folder",
    "-m name=highway_t1 seed=1": "Choose another name for the grid",
    "-m name=a,b seed=1": "a grid has one. Write name=a.",
    "-m layers=all,l4-6 gate=sdu_tanh": "names layer 4",
    "-m table=highway_t5 model.head_width=x": "model.head_width=x must be a whole number",  # the default model has none
    "-m gate=none hydra.launcher.slots=many": "hydra.launcher.slots=many must be a whole number or null",
    "-m gate=none hydra.launcher.slots=0": "at least 1",
    "-m gate=none hydra.launcher.slots=-1": "at least 1",
    "-m gate=none hydra.launcher.slots=1.5": "must be a whole number or null",
    "-m gate=none hydra.launcher.slots=1,2": "hydra.launcher.slots=1,2",
    "-m gate=none hydra.launcher.per_gpu=0": "hydra.launcher.per_gpu=0 is out of range; it must be at least 1",
    "-m gate=none hydra.launcher.per_gpu=many": "hydra.launcher.per_gpu=many must be a whole number or null",
    "-m gate=none hydra/launcher=basic": "no launcher of this project",
    "-m gate=none hydra/launcher=nothing": "hydra/launcher has inline, local",
}
OTHERS = {  # another command and its arguments; `folder`, `text.txt` and others are in the folder where it starts
    "generate": "Missing argument 'RUN'. Type highway generate --help.",
    f"table explain highway_t1 {'a' * 900}": "aaa... it has baseline",
    f"table {'a' * 900} highway_t1": "aaa... Type highway table --help.",
    "generate nowhere": "nowhere has no best.safetensors",
    "generate folder": "folder has no best.safetensors",
    "generate text.txt": "corrupt, or not a file of weights",
    "generate text.txt --last": "--last chooses a checkpoint of a run",
    "generate folder --top-p nan": "'--top-p': 'nan' is not a number from 0 to 1.",
    "generate folder --temperature nan": "'--temperature': 'nan' is not a number",
    "generate folder --temperature inf": "'--temperature': 'inf' is not a number",
    "generate folder --temperature -1": "'--temperature': '-1' is not a number from 0",
    "generate folder --length -5": "'--length': '-5' is not a whole number from 1",
    "generate folder --length many": "'--length': 'many' is not a whole number",
    "generate folder --len 5": "--len is no option of highway generate. Did you mean '--length'?",
    "generate folder --seed 9223372036854775808": "'--seed': '9223372036854775808' is not a whole number",
    "generate folder --top-k 0": "'--top-k': '0' is not a whole number from 1",
    "generate folder --step-seconds nan": "'--step-seconds': 'nan' is not a number",
    "translate folder hello --penalty nan": "'--penalty': 'nan' is not a number",
    "translate folder hello --penalty 1e9": "'--penalty': '1e9' is not a number",
    "translate folder hello --penalty -1": "'--penalty': '-1' is not a number from 0",
    "translate folder hello --beam 0": "'--beam': '0' is not a whole number",
    "translate folder hello --attention x": "'--attention': 'x' is not a whole number",
    "translate folder hello --file text.txt": "a text and --file cannot be combined",
    "translate folder --file nowhere.txt": "nowhere.txt cannot be read",
    "translate folder --file folder": "folder cannot be read: Is a directory",
    "translate folder --file latin.txt": "latin.txt is not UTF-8 text",
    "translate folder --file nothing.txt": "there is nothing to translate",
    "translate folder ''": "there is nothing to translate",
    "report --data runs.txt": "runs.txt",
    "report nothing": "there is no table or grid 'nothing'",
    "report --budget huge": "'huge' is unknown. Available: medium, mini, paper, smoke.",
    "report --watch highway_t1": "--watch serves every table",
    "report --watch --port 99999999": "'--port': '99999999' is not a whole number",
    "report --watch --every 0": "'--every': '0' is not a whole number",
    "report highway_t1 --with ''": "sets nothing",
    "report highway_t1 gate=none": "gate=none is an override. Write --with before each: --with gate=none.",
    "report highway_t1 highway_t2 --data runs.csv": "Name one or none, and leave out --with.",
    "publish gate=none": "gate=none is an override. Name a table first.",
    "report highway_t1 --with gate=null": "gate=null names no option",
    "table status": "Missing argument 'TABLE'.",
    "table": "Missing command. Type highway table --help.",
    "tabel": "No such command 'tabel'. Did you mean 'table'? Type highway --help.",
    "table status highway_t3 --budget mini": "--budget is no option of highway table status.",
    "report highway_t1 --with": "'--with' requires an argument.",
    "table status ../train": "there is no table or grid '../train'",
    "table explain highway_t2x": "Did you mean 'highway_t",
    "table explain highway_t1 tann": "Did you mean 'tanh'",
    "table explain highway_t1 --budget huge": "'huge' is unknown. Available: medium, mini, paper, smoke.",
    "table status highway_t3 --with layers": "layers",
    "table explain highway_t1 nothing": "highway_t1 has no row 'nothing'",
    "data prepare ptb_wrd": "Did you mean 'ptb_word'",
    "data verify ptb_word": "ptb.train.txt is missing",
    "data prepare nothing": "there is no data set 'nothing'",
    "data prepare mnist --source network": "'network' is not one of 'files', 'sample'.",
    "data explode": "No such command 'explode'. Type highway data --help.",
    "dashboard": "dashboard needs a table",
    "report highway_t3 --budget mini --with model.width=-1": "model.width=-1",
    "dashboard highway_t7 --sync --dry-run": "--sync uploads the offline runs of every table. Leave out the table",
    "dashboard highway_t5 --online --dry-run": "--online changes how --send uploads. Add --send.",
    "dashboard highway_t7 --dry-run": "highway_t7 is timed and has no curves",
    "dashboard highway_t1 --budget huge": "'huge' is unknown. Available: medium, mini, paper, smoke.",
}


def refused(code: int, out: str, err: str, expected: str) -> None:
    assert (code, out) == (2, ""), err
    (sentence,) = err.splitlines()
    assert sentence.startswith("error: ") and expected in sentence


def would_train(*_: object) -> None:
    raise AssertionError("the command was not refused: it would train")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move to an own folder with files of the wrong kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, content in {"text.txt": b"text", "latin.txt": "olá".encode("latin-1"), "nothing.txt": b""}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def ended(start: Callable[[], object], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        start()
    return int(str(end.value.code or 0)), *capfd.readouterr()


training = partial(main, "train")


@pytest.mark.parametrize("line", WRONG)
def test_one_sentence(
    line: str, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(here.iterdir())
    monkeypatch.setattr("highway.data.prepare.prepare_all", would_train)
    monkeypatch.setattr(sys, "argv", ["train.py", *shlex.split(line)])
    refused(*ended(training, capfd), WRONG[line])
    assert set(here.iterdir()) == before


def test_an_outputs_folder_that_cannot_be_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "outputs_dir=/dev/null/x", "dataset.source=sample"])
    code, _, err = ended(training, capfd)
    assert (code, err) == (4, "error: /dev/null/x/cache could not be written: Not a directory.\n")


@pytest.mark.parametrize("line", OTHERS)
def test_one_sentence_of_the_other_commands(
    line: str, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(here.iterdir())
    monkeypatch.setattr(sys, "argv", ["highway", *shlex.split(line)])
    refused(*ended(main, capfd), OTHERS[line])
    assert set(here.iterdir()) == before


def test_a_typed_key_that_nothing_reads_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("highway.data.prepare.prepare_all", lambda _: None)
    monkeypatch.setattr("highway.training.run", lambda *_: "finished")
    monkeypatch.setattr(sys, "argv", ["train.py", "gate=none", "gate.activation=tanh", "gate.residual=none"])
    code, _, err = ended(training, capfd)
    assert (code, err) == (0, "gate.activation=tanh changes nothing: no part of this run reads it.\n")


def test_a_shell_sees_one_sentence_before_torch_is_imported(tmp_path: Path) -> None:
    code = "import sys\nfrom highway.cli import main\ntry: main('train')\nfinally: assert 'torch' not in sys.modules"
    for line in ("gate=sdu_tan", "-m table=highway_t1 seeds=1,2 seed=5"):
        command = [sys.executable, "-c", code, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        refused(done.returncode, done.stdout, done.stderr, WRONG[line])


def test_a_trace_on_demand(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "model.heads=7", "debug=trace"])
    code, _, err = ended(training, capfd)
    assert code == 2 and "Traceback" in err
    assert err.strip().splitlines()[-1].startswith("error: model.width=512")
