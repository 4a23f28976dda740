"""Translation data, training and scoring: reading, refusing, batching, scoring, and the command line."""

import io
import itertools
import math
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from measuring import decoded
from safetensors.torch import save_file
from torch import nn

from highway.cards.datasets import END, PADDING, START
from highway.config.experiment import Experiment
from highway.data import sample_pairs, sources, translation
from highway.data.pairs import PairBatch, TranslationData, batch_ends
from highway.errors import Refused
from highway.ledger.files import read_json
from highway.python.translate import translator_of
from highway.run import build
from highway.tasks.translation import scores, sparsity
from highway.testing.runs import assert_resumes_exactly, curve, trained
from tests.support.commands import typed
from tests.support.data import REAL_DATA, needs_file
from tests.support.overrides import PAIRS

Compose = Callable[..., Experiment]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def tiny(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> Compose:
    """Return a function that composes an experiment of seconds on one core, with 200 pairs to train on."""
    monkeypatch.setattr(sample_pairs, "PAIRS", {"train": 200, "valid": 20, "test": 20})
    sample_pairs.translation.cache_clear()
    return lambda *overrides: experiment(*PAIRS, *overrides)


@pytest.fixture(autouse=True)
def _whole_sample_afterwards() -> Any:
    yield
    sample_pairs.translation.cache_clear()


# Data


def written(folder: Path, **content: Any) -> Path:
    """Write TED's valid and test as short files, and a substitute corpus `tatoeba` of three pairs."""
    files = {
        "ted_pt_en/valid.pt": "um\ndois",
        "ted_pt_en/valid.en": "one\ntwo",
        "ted_pt_en/test.pt": "três",
        "ted_pt_en/test.en": "three",
        "pt_en_substitute/tatoeba.pt": "Um gato.\nDois gatos!\n" + "longa " * 60,
        "pt_en_substitute/tatoeba.en": "It's one cat.\nTwo cats!\nlong",
    }
    for name, text in {**files, **{name.replace("__", "."): text for name, text in content.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())
    return folder


SUBSTITUTE = ("model=encoder_decoder", "dataset=pt_en_substitute", "dataset.corpora=[tatoeba]", "layers=none")


@pytest.fixture
def short_ted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "COUNTS", {"train": 2, "valid": 2, "test": 1})
    monkeypatch.setattr(translation, "PAIRS_SHA256", {})
    monkeypatch.setattr(translation, "SUBSTITUTE", replace(translation.SUBSTITUTE, checksums={}))


@pytest.mark.usefixtures("short_ted")
def test_substitute_is_made_like_ted_and_filtered(experiment: Compose, tmp_path: Path) -> None:
    overrides = ("dataset.pieces.files=[30,30]", "dataset.form=bpe", f"data_dir={written(tmp_path / 'data')}")
    data = build.data(experiment(*SUBSTITUTE, *overrides))
    about = data.description()
    assert about["source"] == "substitute"
    assert about["pairs"] == {"train": 3, "valid": 2, "test": 1}
    assert (about["too_many_words"], about["too_many_pieces"]) == (1, 0)
    read = [data.streams.target.decode(row["target"]) for row in data.streams.splits["train"]]
    assert read == ["it 's one cat .", "two cats !"]


@pytest.mark.usefixtures("short_ted")
@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"ted_pt_en/test__pt": "a\nb"},
            r"test\.pt has 2 lines and .*test\.en has 1: each line needs a translation\.",
        ),
        ({"ted_pt_en/valid__en": "one\n\n"}, r"valid\.en, line 2, is empty"),
        ({"ted_pt_en/valid__pt": b"um\nd\xffis\n"}, r"valid\.pt, line 2, is not UTF-8 text\."),
        ({"ted_pt_en/valid__pt": "um", "ted_pt_en/valid__en": "one"}, "valid has 1 pairs; TED pt-en has 2"),
    ],
    ids=["lengths", "empty", "encoding", "count"],
)
def test_what_a_file_may_have_wrong(experiment: Compose, tmp_path: Path, files: dict[str, Any], sentence: str) -> None:
    described = experiment(*SUBSTITUTE, f"data_dir={written(tmp_path / 'data', **files)}")
    with pytest.raises(Refused, match=sentence):
        build.data(described)


def test_missing_corpus_and_changed_pairs(experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "COUNTS", {"train": 2, "valid": 2, "test": 1})
    monkeypatch.setattr(translation, "SUBSTITUTE", replace(translation.SUBSTITUTE, checksums={}))
    folder = written(tmp_path / "data")
    with pytest.raises(Refused, match="the pairs of valid are not those of TED pt-en"):
        build.data(experiment(*SUBSTITUTE, f"data_dir={folder}"))
    with pytest.raises(Refused, match=r"ntrex128\.pt is missing\. Put it there\."):
        build.data(experiment(*SUBSTITUTE, "dataset.corpora=[ntrex128]", f"data_dir={folder}"))


def archive(path: Path, names: list[str]) -> None:
    with tarfile.open(path, "w:gz") as packed:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 3
            packed.addfile(member, io.BytesIO(b"um\n"))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("incomplete", "is not the expected archive"),
        ("truncated", "is not the expected archive"),
        ("whole", "train has 1 pairs; TED pt-en has 51,785"),
    ],
)
def test_archives(
    experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sentence: str
) -> None:
    """An archive that lacks a file, or is half an archive, leaves no file behind."""
    made, data = tmp_path / "made.tar.gz", tmp_path / "data"
    names = list(sources.TALKS.values())
    archive(made, names[:3] if kind == "incomplete" else names)
    content = made.read_bytes()
    if kind == "truncated":
        content = content[: len(content) // 2]

    monkeypatch.setattr("highway.data.fetch.download", lambda url, path: path.write_bytes(content))
    described = experiment("model=encoder_decoder", "dataset=iwslt_pt_en", "layers=none", f"data_dir={data}")
    with pytest.raises(Refused, match=sentence):
        build.data(described)
    actual = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert not any("train" in name for name in actual), "nothing is taken that is not right"


def test_pieces_are_as_many_as_asked_and_the_same_again(tiny: Compose, tmp_path: Path) -> None:
    first = build.data(tiny()).streams
    again = build.data(tiny(f"outputs_dir={tmp_path / 'again'}")).streams
    assert (first.source.get_piece_size(), first.target.get_piece_size()) == (120, 90)
    assert first.vocabulary_sha256 == again.vocabulary_sha256
    assert [first.source.id_to_piece(number) for number in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]
    with pytest.raises(Refused, match=r"\(pt\) does not have 5000 pieces: it has at most \d+\. Change dataset\.pieces"):
        build.data(tiny("dataset.form=unigram", "dataset.pieces.sample=[5000,90]"))


def test_unigram_vocabulary_of_one_thread_is_deterministic(tiny: Compose, tmp_path: Path) -> None:
    overrides = ("dataset.form=unigram", "dataset.pieces.sample=[50,40]")
    hashes = {
        build.data(tiny(*overrides, f"outputs_dir={tmp_path / name}")).streams.vocabulary_sha256 for name in ("a", "b")
    }
    assert len(hashes) == 1


def test_long_pairs_are_left_out_of_training_and_cut_elsewhere(tiny: Compose) -> None:
    """A cut target has one piece more than a cut source: as many are predicted as a training target may have."""
    whole, short = (build.data(tiny(f"dataset.longest={longest}")) for longest in (64, 18))
    about = short.description()
    train = [max(map(len, row.values())) for row in whole.streams.splits["train"]]
    assert max(train) < 64 and 18 in train, "some pairs are just short enough"
    assert about["too_many_pieces"] == sum(length > 18 for length in train) > 0
    assert len(short.streams.splits["train"]) == sum(length <= 18 for length in train)
    for split in ("valid", "test"):
        rows = [(row["source"][:18], row["target"][:19]) for row in whole.streams.splits[split]]
        assert [(row["source"], row["target"]) for row in short.streams.splits[split]] == rows
        longer = [len(row["source"]) > 18 or len(row["target"]) > 19 for row in whole.streams.splits[split]]
        assert about["cut"][split] == sum(longer) > 0
        assert about["pieces"][split] == sum(len(target) - 1 for _, target in rows)
    with pytest.raises(Refused, match="no training pair is short enough"):
        build.data(tiny("dataset.longest=3"))


def test_every_pair_once_an_epoch(tiny: Compose) -> None:
    data = build.data(tiny())
    epochs = data.train_dataloader().batches
    pairs = [row["source"] + [-1] + row["target"] for row in data.streams.splits["train"]]
    for epoch in range(2):
        batches = [epochs.at(epoch * len(epochs) + position) for position in range(len(epochs))]
        assert sorted(text for batch in batches for text in unpadded(batch)) == sorted(pairs)
    assert unpadded(epochs.at(0)) != unpadded(epochs.at(len(epochs))), "another order"
    assert unpadded(epochs.at(9)) == unpadded(build.data(tiny()).train_dataloader().batches.at(9))
    padding = np.mean([float((batch.targets == PADDING).float().mean()) for batch in batches])
    assert padding < 0.1
    sides = [
        side for position in range(len(epochs)) for side in (epochs.at(position).source, epochs.at(position).targets)
    ]
    empty = sum(int((side == PADDING).sum()) for side in sides)
    assert data.padding == pytest.approx(empty / sum(side.numel() for side in sides))


def unpadded(batch: PairBatch) -> list[list[int]]:
    pairs = []
    for source, inputs, targets in zip(
        batch.source.tolist(), batch.inputs.tolist(), batch.targets.tolist(), strict=True
    ):
        assert source[0] == inputs[0] == START and END in targets
        target = [START, *(piece for piece in targets if piece != PADDING)]
        pairs.append([*(piece for piece in source if piece != PADDING), -1, *target])
    return pairs


@pytest.mark.parametrize("gate", ["none", "g1", "m2", "highway"])
def test_lengths_padded_for_a_gpu_change_nothing(tiny: Compose, monkeypatch: pytest.MonkeyPatch, gate: str) -> None:
    """Loss, counts and gradients are the same; no text is longer than the score gate's weights; a CPU pads nothing."""
    still = [f"model.dropout{part}=0" for part in ("", "_attention", "_embedding")]
    described = tiny(f"gate={gate}", "gate.score.length=64", *still)
    data, task = build.data(described), build.task(described).double().train()
    assert isinstance(data, TranslationData)
    for rows in data.training_groups(0)[:3]:
        learnt, gradients = [], []
        for device in ("cpu", "cuda"):
            strategy = SimpleNamespace(root_device=torch.device(device))
            monkeypatch.setattr(data, "trainer", SimpleNamespace(strategy=strategy), raising=False)
            batch = data.batch("train", rows, 0, 1)
            longest = max(data.tables["train"].lengths(0)[rows]), max(data.tables["train"].lengths(1)[rows]) - 1
            if device == "cuda":
                longest = tuple(min(64, -(-length // 8) * 8) for length in longest)
            assert (batch.source.shape[1], batch.inputs.shape[1]) == longest
            assert batch.inputs.shape == batch.targets.shape
            learnt.append(task.learn(batch))
            gradients.append(torch.autograd.grad(learnt[-1].objective, list(task.parameters()), allow_unused=True))
        assert learnt[0].scored == learnt[1].scored
        torch.testing.assert_close(learnt[1].objective, learnt[0].objective, rtol=1e-12, atol=0)
        for ours, theirs in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    plain = data.tables["valid"].batch(np.arange(5))
    assert all(torch.equal(*pair) for pair in zip(data.batch("valid", np.arange(5), 0, 1)[:3], plain[:3], strict=True))
    data.experiment = tiny("gate=g1", "gate.score.as_printed=true")  # padding would change its scores
    assert data.batch("train", rows, 0, 1).inputs.shape[1] == max(data.tables["train"].lengths(1)[rows]) - 1


def test_lengths_are_padded_no_further_than_the_score_gate_reaches(tiny: Compose) -> None:
    table = build.data(tiny()).tables["train"]
    row = np.array([int(np.argmax(table.lengths(1)))])
    source, inputs = (int(table.lengths(side)[row].item()) - side for side in (0, 1))
    batch = table.batch(row).padded(100, longest=inputs + 1)
    assert batch.source.shape[1] == max(source, inputs + 1) and batch.inputs.shape[1] == inputs + 1


def test_batches_by_pieces_hold_no_more() -> None:
    lengths = np.sort(np.random.default_rng(1).integers(3, 30, 500))
    ends = batch_ends(lengths, 64, 200)
    assert ends[0] == 0 and ends[-1] == 500
    sizes = [(end - start) * (lengths[end - 1] - 1) for start, end in itertools.pairwise(ends)]
    assert max(sizes) <= 200 and np.mean(sizes) > 150


def test_devices_share_a_batch_and_its_weight(tiny: Compose) -> None:
    """Devices share the pieces of a batch, and all divide by its number, so that their mean is that over all pieces."""
    data = build.data(tiny())
    rows = data.training_groups(0)[3]
    whole, parts = ([data.batch("train", rows, share, shares) for share in range(shares)] for shares in (1, 3))
    assert {batch.scored for batch in parts} == {whole[0].scored}
    assert sum(int((batch.targets != PADDING).sum()) for batch in parts) == whole[0].scored
    assert sorted(text for batch in parts for text in unpadded(batch)) == sorted(unpadded(whole[0]))


def test_sample_has_no_sentence_of_its_test_in_training() -> None:
    splits = sample_pairs.translation()
    held_out = {source for split in ("valid", "test") for source, _ in splits[split]}
    assert not held_out & {source for source, _ in splits["train"]}
    assert len(splits["test"]) == 200 and len(splits["train"]) > 5900


# Training and scoring


def test_a_run_is_scored_as_it_should_be(tiny: Compose) -> None:
    """Loss and accuracy equal those by sentence; the record says what was read, and how it was scored."""
    described = tiny("gate=g1")
    directory, result = trained(described)
    assert result["status"] == "finished", result["error"]
    data = build.data(described)
    assert isinstance(data, TranslationData)
    model = build.model(described)
    from highway.run.checkpoint import load_weights

    load_weights(model, directory.last)
    loss, right, count = 0.0, 0, 0
    for row in data.streams.splits["valid"]:
        source, target = torch.tensor([row["source"]]), torch.tensor(row["target"])
        with torch.no_grad():
            chances = model.eval().logits(model(source, target[None, :-1]))[0].log_softmax(-1)
        loss -= float(chances[torch.arange(len(target) - 1), target[1:]].sum())
        right += int((chances.argmax(-1) == target[1:]).sum())
        count += len(target) - 1
    metrics = result["metrics"]
    assert metrics["valid_loss"]["last"] == pytest.approx(loss / count, rel=1e-4)
    assert metrics["valid_accuracy"]["last"] == pytest.approx(right / count)
    assert metrics["inference_seconds"]["last"] > 0 and "sparsity_0.001" in metrics
    assert "version:" in result["notes"]["signatures"]["bleu"] and len(result["notes"]["translations"]) == 20
    assert result["parameters"]["gate"] == 3 * 2 * 64 * 64
    assert {row[4] for row in curve(directory)} == {"loss", "accuracy", "learning_rate", "gradient_norm", "gate_norm"}


@pytest.mark.parametrize("stops", [[3], [5, 6], [10]])
def test_translation_resumes_exactly(tiny: Compose, tmp_path: Path, stops: list[int]) -> None:
    overrides = ("gate=g2", "model.dropout_attention=0.2")
    whole, result = trained(tiny(*overrides))
    described = tiny(*overrides, f"outputs_dir={tmp_path / 'stopped'}")
    assert_resumes_exactly(described, stops, whole, result)


def test_what_is_shown_of_training_is_the_mean_over_pieces(tiny: Compose) -> None:
    """Batches of different sizes, at a learning rate of zero, weigh every piece alike."""
    still = [f"model.dropout{part}=0" for part in ("", "_attention", "_embedding")]
    overrides = (
        "optimizer.lr=0",
        "optimizer.label_smoothing=0",
        "trainer.max_steps=7",
        "trainer.log_every=7",
        "trainer.validate_every=7",
    )
    described = tiny(*still, *overrides)
    directory, _ = trained(described)
    model, epochs = build.model(described).eval(), build.data(described).train_dataloader().batches
    nats = count = 0.0
    for position in range(7):
        batch = epochs.at(position)
        with torch.no_grad():
            chances = model.logits(model(batch.source, batch.inputs)).log_softmax(-1)
        scored = batch.targets != PADDING
        nats -= float(chances.gather(-1, batch.targets[..., None])[..., 0][scored].sum())
        count += int(scored.sum())
    shown = next(float(row[-1]) for row in curve(directory) if row[3:5] == ["train", "loss"])
    assert shown == pytest.approx(nats / count, rel=1e-5)


def test_tied_output_is_the_targets_embedding(tiny: Compose) -> None:
    _, plain = trained(tiny())
    _, tied = trained(tiny("model.tied=true"))
    assert tied["status"] == "finished", tied["error"]
    assert plain["parameters"]["total"] - tied["parameters"]["total"] == 90 * 16


def test_more_devices_than_pairs_in_a_batch(tiny: Compose) -> None:
    table = build.data(tiny()).tables["train"]
    parts = [table.batch(np.arange(2), share, 3) for share in range(3)]
    assert [int((part.targets != PADDING).sum()) > 0 for part in parts] == [True, True, False]


def test_bleu_is_of_the_corpus() -> None:
    actual, _ = scores(["a b c d e", "x"], ["a b c d e", "y z"])
    precision = [5 / 6, 4 / 4, 3 / 3, 2 / 2]
    brevity = math.exp(1 - 7 / 6)
    assert actual["bleu"] == pytest.approx(100 * brevity * math.prod(precision) ** 0.25)


def test_a_file_of_weights_is_enough(tiny: Compose, tmp_path: Path) -> None:
    directory, _ = trained(tiny())
    sent, cut, foreign = (tmp_path / f"{name}.safetensors" for name in ("sent", "cut", "foreign"))
    sent.write_bytes(directory.best.read_bytes())
    cut.write_bytes(directory.best.read_bytes()[:-1000])
    save_file({"x": torch.zeros(1)}, foreign)
    texts = [source for source, _ in sample_pairs.translation()["test"][:4]]
    assert translator_of(sent).translate(texts) == translator_of(directory.path).translate(texts)
    for path, sentence in ((cut, "is corrupt"), (foreign, "does not name the run of its weights")):
        with pytest.raises(Refused, match=f"{path.name} {sentence}"):
            translator_of(path)


def test_weights_are_not_read_with_another_vocabulary(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, _ = trained(tiny())
    pairs = sample_pairs.translation()
    changed = {**pairs, "train": [(source[::-1], target) for source, target in pairs["train"]]}
    with monkeypatch.context() as patched:
        patched.setattr(sample_pairs, "translation", lambda: changed)
        with pytest.raises(Refused, match="was trained with another vocabulary than that of iwslt_pt_en here"):
            translator_of(directory.path)


def test_ways_to_decode_are_timed_on_the_same_sentences(tiny: Compose) -> None:
    directory, _ = trained(tiny("gate=g1"))
    record = decoded(directory.path, 5, "cpu")
    theirs, ours, *_, beams_in_half = record["rows"]
    assert (record["sentences"], theirs["ratio"], theirs["same"], ours["same"]) == (5, 1.0, 5, 5)
    assert beams_in_half["name"] == "ours, beam 4, bf16"


def test_sparsity_counts_weights() -> None:
    module = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.0, 0.0005, -0.0015, 1.0]]))
    actual = sparsity(module)
    assert [actual[f"sparsity_{limit}"] for limit in ("0", "0.0001", "0.001", "0.002")] == [25, 25, 50, 75]


# The command line


translate = partial(typed, "translate")


def test_refusals_of_translate(tmp_path: Path) -> None:
    for overrides, text, sentence in (
        ([str(tmp_path), "um"], b"", "has no best.safetensors. Name the directory in which a run"),
        ([str(tmp_path)], b"", "there is nothing to translate: the text is empty."),
        ([str(tmp_path)], b"\xff\n", "standard input is not UTF-8 text."),
        ([str(tmp_path), "--file", "none.pt"], b"", "none.pt cannot be read: No such file or directory."),
        ([str(tmp_path), "um", "--beam", "0"], b"", "--beam': '0' is not a whole number from 1 to 100."),
    ):
        done = translate(*overrides, text=text)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_translate_reads_words_files_and_standard_input(experiment: Compose, tmp_path: Path) -> None:
    """Train on the whole sample, because the process that translates cannot read a shortened one."""
    where, _ = trained(experiment(*PAIRS, "gate=g1"))
    lines = [source for source, _ in sample_pairs.translation()["test"][:3]]
    (tmp_path / "talk.pt").write_text("\n".join(lines) + "\n")
    from_file = translate(str(where.path), "--file", str(tmp_path / "talk.pt"), "--beam", "2")
    from_input = translate(str(where.path), "--beam", "2", text="\n".join(lines).encode())
    assert from_file.returncode == 0, from_file.stderr
    assert from_file.stdout == from_input.stdout and len(from_file.stdout.splitlines()) == 3
    shown = translate(str(where.path), *lines[0].split(), "--attention", "2")
    assert "cross-attention of layer 2, percent" in shown.stdout
    long = translate(str(where.path), *("bota " * 80).split())
    assert "1 of 1 line truncated to 64 pieces." in long.stderr
    generated = typed("generate", str(where.path))
    assert "holds a translation model. Use highway translate instead." in generated.stderr


@pytest.mark.slow
def test_the_sample_is_learned_within_two_minutes(tmp_path: Path) -> None:
    """The smoke row T of gated_resnet_t1, through the real command line, takes one minute where two cores are idle."""
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "-m", "table=gated_resnet_t1", "budget=smoke"]
    done = subprocess.run(
        [*command, "rows=t_e4h6", f"outputs_dir={tmp_path}"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    result = read_json(next(tmp_path.glob("cells/*/seed1/result.json")))
    assert result["metrics"]["bleu"]["last"] > 60
    assert result["cost"]["seconds"] < 240  # half as much on an idle machine


@needs_file("pt_en_substitute/tatoeba.pt")
def test_real_data_is_complete_where_it_is(experiment: Compose) -> None:
    overrides = ("model=encoder_decoder", "dataset=pt_en_substitute", "layers=none", f"data_dir={REAL_DATA}")
    data = build.data(experiment(*overrides))
    assert [side.get_piece_size() for side in (data.streams.source, data.streams.target)] == [7_765, 7_010]
    about = data.description()
    assert about["pairs"] == {"train": 24_611, "valid": 1_193, "test": 1_803}
    assert about["too_many_words"] + about["too_many_pieces"] < 2_000
