"""Lanes and the windows that walk over them."""

import pytest
import torch

from highway.cards.datasets import Cut
from highway.data.batches import TrainingBatches
from highway.data.windows import TextBatch, Windows


def windows_of_the_released_code(stream: list[int], lanes: int, window: int, valid: int) -> list[list[list[list[int]]]]:
    """Return the windows of R-Transformer's loop, written naively: per update and lane, inputs and scored targets."""
    length = len(stream) // lanes
    rows = [stream[lane * length : (lane + 1) * length] for lane in range(lanes)]
    history = window - valid
    updates = []
    for start in range(0, length - 1, valid):
        if start + history >= length - 1:
            continue
        size = min(window, length - 1 - start)
        inputs = [row[start : start + size] for row in rows]
        targets = [row[start + 1 : start + 1 + size][history:] for row in rows]
        updates.append([inputs, targets])
    return updates


@pytest.mark.parametrize(
    ("size", "lanes", "window", "valid"), [(1000, 4, 24, 20), (997, 3, 10, 7), (205, 1, 80, 40), (64, 2, 8, 8)]
)
def test_windows_are_those_of_the_released_code(size: int, lanes: int, window: int, valid: int) -> None:
    stream = torch.arange(size)
    cut = Windows(stream, Cut(lanes=lanes, window=window, stride=valid, scored=valid))
    expected = windows_of_the_released_code(stream.tolist(), lanes, window, valid)
    assert len(cut) == len(expected)
    for index, (inputs, targets) in enumerate(expected):
        batch = cut[index]
        assert [batch.inputs.tolist(), batch.targets.tolist()] == [inputs, targets]
        assert batch.unscored == window - valid


def test_whole_windows_alone() -> None:
    """Word PTB in 20 lanes and 35 steps has 1,327 updates an epoch, as in the code of recurrent highway networks."""
    cut = Cut(lanes=20, window=35, stride=35, scored=35)
    assert len(Windows(torch.zeros(929_589), cut)) == 1328
    windows = Windows(torch.zeros(929_589), cut.model_copy(update={"whole": True}))
    assert len(windows) == (929_589 // 20 - 1) // 35 == 1327
    assert windows[1326].inputs.shape == windows[1326].targets.shape == (20, 35)
    assert len(Windows(torch.zeros(71), Cut(lanes=1, window=35, stride=35, scored=35, whole=True))) == 2


def test_contiguous_segments_score_every_symbol_once() -> None:
    cut = Windows(torch.arange(103), Cut(lanes=2, window=10, stride=10, scored=10))
    scored = torch.cat([cut[index].targets for index in range(len(cut))], dim=1)
    assert scored.tolist() == [list(range(1, 51)), list(range(52, 102))]


def test_training_batches_go_on_from_any_position() -> None:
    windows = Windows(torch.arange(200), Cut(lanes=1, window=30, stride=20, scored=20))
    whole = [batch.inputs[0, 0].item() for batch in TrainingBatches(windows, 23)]
    assert len(whole) == 23 and len(windows) == 10
    assert whole == [windows.at(position).inputs[0, 0].item() for position in range(23)]
    begun = TrainingBatches(windows, 23)
    for _ in zip(range(14), begun, strict=False):
        pass
    assert begun.state_dict() == {"position": 14}
    resumed = TrainingBatches(windows, 23)
    resumed.load_state_dict(begun.state_dict())
    assert [batch.inputs[0, 0].item() for batch in resumed] == whole[14:]


def test_a_window_without_a_scored_symbol_is_none() -> None:
    """No second window exists, because it would have its context and nothing beyond."""
    windows = Windows(torch.arange(8), Cut(lanes=1, window=7, stride=5, scored=5))
    assert (windows.starts, windows.ends) == ([0], [7])


def test_a_share_of_the_lanes_is_whole_lanes() -> None:
    cut = Cut(lanes=5, window=3, stride=3, scored=3)
    parts = [Windows(torch.arange(50), cut, share, 2) for share in range(2)]
    assert [part.lanes.tolist()[0][0] for part in parts] == [0, 30]
    assert [part.lanes.shape[0] for part in parts] == [3, 2]
    assert [
        len(Windows(torch.arange(50), Cut(lanes=1, window=3, stride=3, scored=3), share, 2).lanes) for share in range(2)
    ] == [1, 0]


def test_only_the_first_windows_over_and_over() -> None:
    windows = Windows(torch.arange(40), Cut(lanes=1, window=5, stride=5, scored=5)).keep_first(2, again=3)
    assert windows.starts == [0, 5] * 3 and windows.ends == [5, 10] * 3
    assert Windows(torch.arange(40), Cut(lanes=1, window=5, stride=5, scored=5)).keep_first(2).starts == [0, 5]


def test_groups_end_where_the_shape_changes() -> None:
    windows = Windows(torch.arange(24), Cut(lanes=1, window=5, stride=5, scored=5))
    groups: list[TextBatch] = list(windows.together(3))
    assert [group.inputs.shape for group in groups] == [(3, 5), (1, 5), (1, 3)]
    assert [group.unscored for group in groups] == [0, 0, 0]
    assert torch.equal(torch.cat([group.targets.flatten() for group in groups]), torch.arange(1, 24))
    shares = [list(windows.together(2, share, 2)) for share in range(2)]
    symbols = sorted(symbol for part in shares for group in part for symbol in group.targets.flatten().tolist())
    assert symbols == list(range(1, 24))
