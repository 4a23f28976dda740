"""Wrong command lines: each gives one sentence, exit code 2 and no stack trace, and leaves nothing behind."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = Path(__file__).parents[1] / "scripts" / "train.py"

WRONG = {  # the command line, and a word that its sentence must have
    "gate=sdu_tan": "Did you mean 'sdu_tanh'",
    "model=transformr": "Did you mean 'transformer'",
    "dataset=ptb_chars": "Did you mean 'ptb_char'",
    "layers=l1-9": "layers has",
    "optimizer=adamw": "Did you mean 'adam'",
    "budget=huge": "mini, paper, smoke",
    "trainer=fast": "default",
    "logger=tensorboard": "files, wandb",
    "debug=on": "none, overfit",
    "hydra/launcher=k8s": "inline, local",
    "gat=sdu_tanh": "Did you mean 'gate'",
    "modle.width=4": "Did you mean 'model'",
    "sed=1": "Did you mean 'seed'",
    "epochs=3": "neither a key nor a group",
    "model.widht=64": "Did you mean 'width'",
    "trainer.max_epoch=3": "Did you mean 'max_epochs'",
    "optimizer.learning_rate=1": "optimizer has",
    "dataset.train.lane=4": "Did you mean 'lanes'",
    "optimizer.plateau.factor=2": "optimizer.plateau has",
    "+model.depth=3": "model.depth is not a key",
    "+extra=1": "'extra' is not a key",
    "~gate": "gate",
    "model.width=wide": "must be a whole number",
    "model.layers=3.5": "must be a whole number",
    "trainer.max_epochs=many": "trainer.max_epochs",
    "trainer.compile=perhaps": "must be true or false",
    "optimizer.betas=0.9": "must be a list",
    "optimizer.betas=[0.9]": "two numbers",
    "optimizer.betas=[0.9,1.5]": "[0, 1)",
    "model.dropout=1.5": "from 0 to 0.999",
    "model.dropout=-0.1": "from 0 to 0.999",
    "model.layers=0": "at least 1",
    "trainer.devices=0": "at least 1",
    "trainer.threads=0": "at least 1",
    "model.heads=7": "not a multiple of model.heads=7",
    "model.norm=middle": "pre, post",
    "trainer.precision=16": "32, bf16, 64",
    "trainer.accelerator=quantum": "auto, cpu, gpu",
    "gate.residual=sdo gate.activation=tanh": "sdu",
    "gate.activation=relu": "sigmoid, tanh",
    "layers=l3-6": "names layer 4, but the model has layers 1 to 3",
    "layers.attention=[1,5]": "names layer 5",
    "layers.attention=[0]": "names layer 0",
    "layers.attention=l3-1": "write l1-3",
    "layers.feed_forward=top": "a range such as l1-3",
    "layers.attention=[1,1]": "twice",
    "gate=sdu_tanh gate.reads=normalised model.norm=post": "needs model.norm=pre",
    "dataset.form=words": "eos, newline, joined, characters, word",
    "dataset.source=network": "files, sample",
    "dataset.train.scored=500": "longer than the window of 400",
    "dataset.train.stride=400": "symbols would be skipped",
    "dataset.carry_state=true": "without overlap",
    "dataset=enwik8": "transformer has no memory: set dataset.train.memory=0",
    "dataset.train.memory=5": "needs dataset.carry_state=true",
    "dataset.evaluation.same_length=true": "needs dataset.evaluation.memory above 0",
    "model=transformer_xl dataset=enwik8 gate=sdu_conv_tanh": "goes on from a memory of segments before",
    "model=transformer_xl dataset=enwik8 layers=l1-6 model.layers=4": "names layer 5",
    "model=transformer_xl model.norm_deviation=biased": "norm_deviation",
    "gate=g1": "transformer has no place for the score gate gated",
    "model=encoder_decoder": "encoder_decoder reads a source and its target, and penn_treebank is language data",
    "dataset=iwslt_pt_en": "iwslt_pt_en is translation data",
    "model=encoder_decoder dataset=iwslt_pt_en gate=sdu_conv_tanh": "goes on from what it has decoded before",
    "model=encoder_decoder dataset=iwslt_pt_en gate=g1 gate.score.length=32": "no place for texts of 64 positions",
    "model=encoder_decoder dataset=iwslt_pt_en gate.score.attention=[top]": "encoder, decoder, cross",
    "model=encoder_decoder dataset=iwslt_pt_en dataset.corpora=[news]": "there is tatoeba",
    "model=encoder_decoder dataset=iwslt_pt_en dataset.pieces.files=[300]": "two numbers",
    "model=encoder_decoder dataset=iwslt_pt_en dataset.batch_pieces=9": "holds no sentence of 64 pieces",
    "model=encoder_decoder dataset=iwslt_pt_en dataset.train.lanes=2": "train",
    "optimizer.schedule=inverse_square_root": "optimizer.warmup_steps",
    "trainer.devices=17": "trainer.devices=17 is more than dataset.train.lanes=16",
    "trainer.accumulate=0": "at least 1",
    "trainer.devices=5 trainer.accumulate=4": "trainer.devices=5 times trainer.accumulate=4 is more than",
    "seed=-1": "from 0 upwards",
    "seed=one": "seed=one",
    "logger.wandb=cloud": "null, offline or online",
    "table=highway_t1": "add -m",
    "seeds=1,2": "add -m",
    "gate=none,sdu_tanh": "add -m",
    "model..width=3": "key=value",
    "gate": "key=value",
    "--config": "config",
    "--epochs=3": "without dashes",
    "-m table=highway_t9": "highway_t1, highway_t2",
    "-m table=highway_t1 budget=mni": "Did you mean 'mini'",
    "-m table=highway_t1 seeds=one": "whole numbers",
    "-m table=highway_t1 rows=tann": "Did you mean 'tanh'",
    "-m table=highway_t1 arms=some": "true, false",
    "-m seeds=1,2 gate=none": "needs table=",
    "-m gate=none,sdu_tan": "Did you mean 'sdu_tanh'",
    "-m layers=all,l4-6 gate=sdu_tanh": "names layer 4",
    "-m table=highway_t1 model.widht=3": "Did you mean 'width'",
    "-m table=highway_t5 model.head_width=x": "model.head_width=x must be a whole number",  # the default model has none
}


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(folder / "outputs")}
    command = [sys.executable, str(TRAIN), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


@pytest.mark.parametrize("line", WRONG)
def test_one_sentence(line: str, tmp_path: Path) -> None:
    done = run(line.split(), tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith("error: ")
    assert WRONG[line] in sentence
    assert not (tmp_path / "outputs").exists()


def test_there_are_fifty() -> None:
    assert len(WRONG) >= 50


def test_refused_in_under_a_second(tmp_path: Path) -> None:
    """Of processor time, so that a busy machine does not decide."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run(["gate=sdu_tan"], tmp_path).returncode == 2
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_trace_on_demand(tmp_path: Path) -> None:
    done = run(["model.heads=7", "debug=trace"], tmp_path)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: model.width=512")
