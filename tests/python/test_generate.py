"""Generating text: the distribution that is sampled, the memory that is carried, and the command."""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import mido
import pytest
import torch

from highway.cli import main
from highway.config.experiment import Experiment
from highway.data.texts import Streams
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.python.generate import Sampling, Writer
from highway.python.load import Spelling, Trained, load
from highway.python.tunes import beginning, continued, write_midi
from highway.run import build
from highway.run.checkpoint import read_weights, save_weights
from highway.testing.runs import trained
from tests.support.overrides import FEW, TINY

Compose = Callable[..., Experiment]
Typed = Callable[..., tuple[int, str, str]]
MEMORY = (
    "model=transformer_xl",
    "dataset=enwik8",
    "model.layers=2",
    "model.width=32",
    "model.heads=2",
    "model.feed_forward=64",
    "model.init_deviation=0.3",
    "dataset.train={lanes:4,window:20,stride:20,scored:20,memory:30}",
    "dataset.evaluation={lanes:4,window:8,stride:8,scored:8,memory:400}",
)
WINDOW = "dataset.evaluation={lanes:4,window:300,stride:20,scored:20}"
LOGITS = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]).log()


def frequencies(sampling: Sampling) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.tensor([sampling.draw(LOGITS, generator) for _ in range(500)])
    return [round(share, 1) for share in (torch.bincount(drawn, minlength=5) / 500).tolist()]


def test_what_is_drawn() -> None:
    assert frequencies(Sampling()) == pytest.approx([0.5, 0.2, 0.15, 0.1, 0.05], abs=0.06)
    assert frequencies(Sampling(top_k=2)) == [0.7, 0.3, 0, 0, 0]
    assert frequencies(Sampling(top_p=0.6)) == [0.7, 0.3, 0, 0, 0]  # 0.5 is not enough, so the next is kept too
    assert frequencies(Sampling(top_p=0.5)) == [1, 0, 0, 0, 0]
    assert frequencies(Sampling(temperature=0)) == [1, 0, 0, 0, 0]
    assert frequencies(Sampling(temperature=0.5))[0] == pytest.approx(0.8, abs=0.06)
    assert frequencies(Sampling(top_k=3, top_p=0.6)) == [0.7, 0.3, 0, 0, 0]  # 0.5 of 0.85 is less than 0.6 of it


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"temperature": 1e-300}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}]
)
def test_wrong_sampling_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Refused, match="--"):
        Sampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("overrides", [MEMORY, (*TINY, WINDOW)], ids=["memory", "window"])
def test_each_symbol_is_the_likeliest_after_all_before_it(experiment: Compose, overrides: tuple[str, ...]) -> None:
    """Greedy generation by symbol, with memory, equals one pass over the text; the prompt is several segments."""
    described = experiment(*overrides, "dataset.source=sample")
    streams, directory = build.data(described).streams, RunDirectory.of(described)
    writer = Writer(Trained(directory, described, build.model(described).eval(), streams))
    model = writer.model
    text = "".join(writer.write("the title of the page ", 40, Sampling(temperature=0)))
    numbers = torch.tensor([[writer.spelling.numbers[symbol] for symbol in text]])
    likeliest = model.logits(model(numbers, None)[0])[0].argmax(-1)
    assert likeliest[21:-1].tolist() == numbers[0, 22:].tolist()


def test_words_and_bytes_are_spelled(experiment: Compose) -> None:
    described = experiment(*MEMORY, "dataset.source=sample")
    letters = [chr(byte) for byte in "aé€".encode()]
    streams = Streams({}, letters, {})
    writer = Writer(Trained(RunDirectory.of(described), described, build.model(described), streams))
    writer.model.logits = lambda features: torch.zeros(len(letters))
    order = iter([0, *range(6), 1, 1, 1, 1])  # the last four bytes make no character
    pieces = [*writer.write("é", 10, type("Fixed", (), {"seed": 1, "draw": lambda *_: next(order)})())]  # type: ignore[arg-type]
    assert "".join(pieces).startswith("éaaé€")
    with pytest.raises(Refused, match="the text has the byte 0xa4"):
        list(writer.write("ä", 1, Sampling()))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Return a function that runs `highway generate` in this process; it returns the exit code and the two outputs."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["highway generate", *arguments])
        code = 0
        try:
            main("generate")
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return run


def test_a_text_as_typed(tiny: Compose, typed: Typed) -> None:
    """The command continues the prompt; a run without usable weights is refused in one sentence."""
    directory, _ = trained(tiny(*FEW))
    run = (str(directory.path), "--length", "30")
    code, text, errors = typed(*run, "--prompt", "th", "--seed", "3")
    assert (code, errors) == (0, "") and text.startswith("th") and len(text) == 33
    assert typed(*run, "--prompt", "th", "--seed", "3") == (0, text, "")
    assert typed(*run, "--prompt", "th", "--last")[1].startswith("th")
    assert_refused(typed(*run, "--prompt", "Ω"), "the text has 'Ω'")
    model, header = load(directory.path).model, read_weights(directory.best)[1]
    torch.nn.init.constant_(next(model.parameters()), math.nan)
    save_weights(model, directory.best, header, int(header["step"]))
    assert_refused(typed(*run), "the model diverged. Choose another run or seed.")
    directory.best.unlink()
    assert_refused(typed(*run), "has no best.safetensors")


def assert_refused(ended: tuple[int, str, str], sentence: str) -> None:
    code, text, errors = ended
    assert (code, text) == (2, "") and sentence in errors


MUSIC = ("model=gru", "model.input=88", "model.width=24", "dataset=nottingham", "trainer=music", "optimizer=adam_music")


@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_a_tune_goes_on(experiment: Compose, model: str) -> None:
    """Continuing a tune gives what one pass over it gives, with a carried state or over all steps so far."""
    attends = ("model=transformer_music", "model.width=16", "model.heads=2", "model.feed_forward=32", *MUSIC[3:])
    described = experiment(*(MUSIC if model == "recurrent" else attends), "budget=smoke")
    music = Trained(RunDirectory.of(described), described, build.model(described).eval(), build.data(described).streams)
    music.model.output.bias.data.normal_(generator=torch.Generator().manual_seed(0))
    keys = continued(music, beginning(music, 2, 10), 15, temperature=0, seed=1)
    assert keys.shape == (25, 88) and torch.equal(keys[:10], music.streams.splits["test"][1][:10].float())
    assert torch.equal((music.logits(keys[None])[0, 9:-1] > 0).float(), keys[10:])
    drawn = [continued(music, keys, 30, temperature, seed=seed) for temperature, seed in ((1, 1), (1, 1), (1, 2))]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    for number, steps in ((0, 5), (1, 0)):
        with pytest.raises(Refused, match=r"test set has tunes 1 to 20|tune 1 has steps 1 to"):
            beginning(music, number, steps)


def test_midi(tmp_path: Path) -> None:
    """A held note is one note, and times are those of the file."""
    keys = torch.zeros(4, 88)
    keys[0:3, 39] = 1  # C4 for three steps
    keys[2:4, 43] = 1  # E4 from the third step on
    write_midi(keys, tmp_path / "tune.mid", 0.25)
    file, now, heard = mido.MidiFile(tmp_path / "tune.mid"), 0.0, []
    for message in file:
        now += message.time
        if message.type in ("note_on", "note_off"):
            heard.append((round(now, 6), message.type, message.note))
    assert heard == [(0, "note_on", 60), (0.5, "note_on", 64), (0.75, "note_off", 60), (1, "note_off", 64)]


def test_a_tune_as_typed(experiment: Compose, typed: Typed, tmp_path: Path) -> None:
    few = ("budget=smoke", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.threads=1")
    directory, _ = trained(experiment(*MUSIC, *few))
    run = (str(directory.path), "--length", "8")
    path = tmp_path / "new.mid"
    code, text, errors = typed(*run, "--midi", str(path), "--begin", "20")
    assert (code, errors) == (0, "") and "28 steps, of which the first 20 are" in text
    assert mido.MidiFile(path).length <= 7
    for arguments, sentence in {
        "--prompt th": "--prompt is for models of text",
        "--tune 21": "--tune 21 does not exist: the test set has tunes 1 to 20",
        "--tune 0": "'--tune': '0' is not a whole number from 1",
        "--begin 0": "'--begin': '0' is not a whole number from 1",
        "--begin 9999": "--begin 9999 is out of range: tune 1 has steps 1 to",
        "--step-seconds nan": "'--step-seconds': 'nan' is not a number",
    }.items():
        assert_refused(typed(*run, *arguments.split()), sentence)


def test_no_cache_in_the_folder_one_stands_in(tiny: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of a model's data is in the outputs of its run; that of a lone file of weights is the user's."""
    directory, _ = trained(tiny(*FEW))
    home, here, weights = (tmp_path / name for name in ("home", "here", "weights.safetensors"))
    here.mkdir()
    weights.write_bytes(directory.best.read_bytes())
    monkeypatch.chdir(here)
    monkeypatch.delenv("HIGHWAY_OUTPUTS")
    monkeypatch.setenv("HOME", str(home))
    load(directory.path)
    assert not home.exists()
    load(weights)
    assert (home / ".cache" / "highway" / "cache").is_dir() and not list(here.iterdir())


@pytest.mark.parametrize("prompt", ["the old", "the old ", "the old\n", ""])
def test_a_prompt_in_words_ends_before_the_next_word(experiment: Compose, prompt: str) -> None:
    described = experiment(*TINY, "dataset.source=sample")
    streams = build.data(described).streams
    writer = Writer(Trained(RunDirectory.of(described), described, build.model(described), streams))
    writer.spelling = Spelling(["the", "old", "man", "<eos>"], in_words=True, in_bytes=False)
    writer.model.logits = lambda features: torch.tensor([0.0, 0.0, 1.0, 0.0])
    expected = {"the old": "the old man man ", "": "man man "}.get(prompt, f"{prompt}man man ")
    assert "".join(writer.write(prompt, 2, Sampling(temperature=0))) == expected


def test_a_model_without_a_state_reads_the_text_before_it(experiment: Compose) -> None:
    """A Transformer may be trained on carried data, whose lanes go on from window to window, and carries no state."""
    small = ("model.layers=1", "model.width=32", "model.heads=2", "model.feed_forward=32")
    described = experiment("model=transformer", "dataset=ptb_char_carried", "dataset.source=sample", *small)
    streams = build.data(described).streams
    writer = Writer(Trained(RunDirectory.of(described), described, build.model(described).eval(), streams))
    one, other = (writer._read([5], writer._read(before, None)[1])[0] for before in ([1, 2, 3], [4, 4, 4]))
    assert not torch.equal(one, other)
