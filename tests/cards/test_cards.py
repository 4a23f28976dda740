"""Everything can be one's own: a loss, an optimiser, a schedule, a callback, an option of a gate, each by a card."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra.errors import HydraException
from pydantic import ValidationError
from rich.console import Console

from highway.cards import callbacks, datasets, gates, metrics, models, optimisers, tasks
from highway.cards.card import Card, Cards, loaded
from highway.config.experiment import Experiment, checked_record
from highway.config.sentences import sentence
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import configuration, identity, is_unread
from highway.run import build
from highway.testing.runs import assert_resumes_exactly, trained
from tests.guests import kinds

Compose = Callable[..., Experiment]
CONF = f"hydra.searchpath=[file://{Path(__file__).parents[1] / 'guests' / 'conf'}]"
FEW = ("trainer.max_steps=8", "trainer.validate_every=4", "trainer.threads=1", "trainer.accelerator=cpu")
GUESTS = {  # override -> an override of its option, and where its card is
    "task=confident": ("task.strength=0.2", tasks.TASKS, kinds.CONFIDENT),
    "optimizer=sign": ("optimizer.decay=0.9", optimisers.OPTIMISERS, kinds.SIGN),
    "schedule=halving": ("schedule.every=3", optimisers.SCHEDULES, kinds.HALVING),
    "callback=pull": ("callback.share=0.2", callbacks.CALLBACKS, kinds.PULL),
    "gate=share": ("gate.share=0.25", gates.GATES["residual"], kinds.SHARE),
}


@pytest.fixture(autouse=True)
def _guests(monkeypatch: pytest.MonkeyPatch) -> None:
    for override, (_, cards, card) in GUESTS.items():
        monkeypatch.setitem(cards, override.split("=")[1], card)


@pytest.fixture
def guest(tiny: Compose) -> Compose:
    return lambda *overrides: tiny(CONF, "gate=none", *FEW, *overrides)


@pytest.mark.parametrize("override", GUESTS)
def test_a_guest_is_part_of_the_identity_by_name_options_and_revision(
    guest: Compose, override: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    option, cards, card = GUESTS[override]
    plain, own, another = guest(), guest(override), guest(override, option)
    names = [RunDirectory.of(each).name for each in (plain, own, another)]
    cards.data[override.split("=")[1]] = replace(card, revision=2)  # as an edited file has it
    names.append(RunDirectory.of(guest(override)).name)
    cards.data[override.split("=")[1]] = card
    assert len(set(names)) == 4, "runs of one would pass for finished runs of another"
    group, name = override.split("=")
    assert identity(own)["keys"][group]["residual" if group == "gate" else "name"] == name
    assert checked_record({**configuration(another), "data_dir": "d", "outputs_dir": "o"}).seed == 1
    with pytest.raises(HydraException) as refused:
        guest(option)
    assert f"{option.split('=')[0]} is a key of {override.split('=')[1]} only" in sentence(refused.value)


@pytest.mark.parametrize("override", GUESTS)
def test_a_run_with_a_guest_differs_and_resumes_exactly(guest: Compose, tmp_path: Path, override: str) -> None:
    _, plain = trained(guest(f"outputs_dir={tmp_path}"))
    directory, result = trained(guest(override, f"outputs_dir={tmp_path}"))
    assert result["metrics"]["valid_loss"] != plain["metrics"]["valid_loss"]
    assert_resumes_exactly(guest(override, f"outputs_dir={tmp_path / 'stopped'}"), (3, 6), directory, result)


def test_an_own_gate_may_read_any_shared_option(guest: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its card need not say so, and may say less: every option that is set names its runs."""
    assert identity(guest("gate=share", "gate.kernel=5"))["keys"]["gate"]["kernel"] == 5
    monkeypatch.setitem(gates.GATES["residual"], "share", replace(kinds.SHARE, reads=("activation",)))
    assert identity(guest("gate=share", "gate.share=0.7"))["keys"]["gate"]["share"] == 0.7


def test_a_state_gate_has_its_own_options(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gates.GATES["state"], "leaky_from", kinds.LEAKY)
    recurrent = [CONF, "model=rhn", "dataset=ptb_word_rhn", "optimizer=sgd_rhn"]
    own, another = (experiment(*recurrent, "gate=leaky_from", *more) for more in ((), ("gate.state.start=1",)))
    assert identity(own)["keys"]["gate"]["state"]["name"] == "leaky_from"
    assert identity(another)["keys"]["gate"]["state"]["start"] == 1
    assert RunDirectory.of(own).name != RunDirectory.of(another).name
    with pytest.raises(Refused, match=r"^gate\.state\.start=11 is out of range; it must be from -10 to 10\.$"):
        experiment(*recurrent, "gate=leaky_from", "gate.state.start=11")


def test_torchs_optimisers_and_schedules_resume_exactly(guest: Compose, tmp_path: Path) -> None:
    for overrides in (("optimizer=adamw", "schedule=one_cycle"), ("optimizer=nadam", "schedule=cosine_restarts")):
        directory, result = trained(guest(*overrides, f"outputs_dir={tmp_path}"))
        assert_resumes_exactly(guest(*overrides, f"outputs_dir={tmp_path / 'stopped'}"), (3,), directory, result)


def test_the_group_schedule_replaces_that_of_the_optimiser(guest: Compose) -> None:
    chosen = guest("optimizer=adam", "schedule=halving")
    recipes = (["optimizer=adam", "optimizer.warmup_steps=9"], ["optimizer=adam_cosine", "optimizer.lr=0.001"])
    for other in (guest(*recipe, "schedule=halving") for recipe in recipes):
        assert identity(other) == identity(chosen)
        rates = [build.task(each, 8, 8).schedule.rate(5, 0) for each in (chosen, other)]
        assert rates == [0.001 / 4] * 2
    assert guest("optimizer=sgd_plateau", "schedule=halving").optimizer.schedule == "constant", "nothing else reads it"
    assert is_unread(chosen, "optimizer.warmup_steps=9") and not is_unread(chosen, "optimizer.lr=9")


def test_the_task_of_the_data_set_may_be_named(guest: Compose) -> None:
    assert identity(guest("task.name=language")) == identity(guest())


def test_a_task_trains_only_on_data_of_its_kind(experiment: Compose) -> None:
    refusal = r"task=confident does not train on music data, which nottingham is\. Choose another data set"
    with pytest.raises(Refused, match=refusal):
        experiment(CONF, "task=confident", "model=transformer_music", "dataset=nottingham", "optimizer=adam_music")


@pytest.mark.parametrize(
    ("cards", "name"),
    [
        (tasks.TASKS, "language"),
        (models.MODELS, "transformer"),
        (datasets.DATASETS, "mnist"),
        (gates.GATES["score"], "gated"),
        (optimisers.OPTIMISERS, "adam"),
    ],
)
def test_no_card_takes_the_place_of_another(cards: Cards[Card], name: str) -> None:
    mine = replace(cards[name], **{"reader" if hasattr(cards[name], "reader") else "code": "mine:Mine"})
    cards[name] = replace(cards[name])  # a module that is imported twice
    sentence = rf"the [\w ]+ {name} has a card already, and its finished runs would pass for"
    with pytest.raises(Refused, match=sentence):
        cards[name] = mine
    with pytest.raises(Refused, match=sentence):
        cards.update({name: mine})
    with pytest.raises(Refused, match=sentence):
        cards |= {name: mine}
    with pytest.raises(Refused, match="default is what a configuration has without one"):
        cards["default"] = mine


def test_a_strange_state_of_a_callback_is_refused_at_its_first_checkpoint(
    guest: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds.Pull, "state_dict", lambda self: {"average": np.zeros(2)})
    with pytest.raises(Refused, match="a callback or an optimiser may hold only tensors, numbers, texts"):
        trained(guest("callback=pull", f"outputs_dir={tmp_path}"))


def test_code_that_is_not_there_is_named() -> None:
    with pytest.raises(Refused, match=r"a card names the code tests\.guests\.kinds:Sgin, which cannot be imported"):
        loaded("tests.guests.kinds:Sgin")
    with pytest.raises(ValidationError):
        Card("tests.guests.kinds.Sign", "", "")


def test_no_metric_takes_the_place_of_another() -> None:
    with pytest.raises(Refused, match="there is a metric bpc already"):
        metrics.measured("bpc", "language", "mine:Mine", "mine", "", "lower", 3)
    assert metrics.KINDS["bpc"][0] == "bits per character"


def test_a_guest_is_explained(guest: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    from highway.tables import explain
    from highway.tables.reading import parse_table

    recipe = ["model=transformer", "layers=all", "dataset=ptb_char", "trainer=default", CONF]
    rows = [{"id": "own", "label": "own", "overrides": ["gate=none", "task=confident", "optimizer=sign"]}]
    table = parse_table(
        {
            "id": "mine",
            "caption": "Mine",
            "recipe": recipe,
            "columns": [{"metric": "test_bpc"}],
            "rows": rows,
            "budgets": {"smoke": []},
        }
    )
    console = Console(record=True, width=200)
    explain.explain_row(table, table.rows[0], "smoke", console)
    text = console.export_text()
    for words in (kinds.CONFIDENT.equation, kinds.CONFIDENT.description, kinds.SIGN.equation, "tests/guests/kinds.py"):
        assert words in text
