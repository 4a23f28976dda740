"""Translation with the trained model of a run, and a map of its cross-attention."""

from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from highway.blocks.scored_attention import ScoredAttention
from highway.errors import Refused
from highway.python.load import load_for
from highway.tasks.decoding import Translator


def translator_of(directory: Path, last: bool = False) -> Translator:
    """Load the trained model of a run, with the vocabularies of its training data."""
    trained = load_for(directory, last, "translation")
    corpus = trained.streams
    return Translator(trained.model, corpus.source, corpus.target, trained.experiment.dataset.longest)


def check_layer(translator: Translator, layer: int) -> None:
    """Refuse a layer number that the decoder lacks."""
    layers = len(translator.model.backbone.decoder)
    if not 1 <= layer <= layers:
        raise Refused(f"--attention {layer} is not a layer of the model. Write a number from 1 to {layers}.")


@torch.inference_mode()
def show_attention(translator: Translator, text: str, output: str, layer: int, console: Console) -> None:
    """Print the cross-attention of each output piece, averaged over heads, and how far a score gate has moved it."""
    source = translator.source.encode(text, add_bos=True, add_eos=True)[: translator.longest]
    target = translator.target.encode(output, add_bos=True)[: translator.longest]
    attention = translator.model.backbone.decoder[layer - 1].get_submodule("cross.function")
    assert isinstance(attention, ScoredAttention)
    attention.watched = []
    translator.model(translator.padded([source]), translator.padded([target]))
    before, after = (scores[0].softmax(-1).mean(0) for scores in attention.watched)
    attention.watched = None
    grid = RichTable(box=SIMPLE_HEAD, title=f"cross-attention of layer {layer}, percent", title_justify="left")
    for head in ("", *(translator.source.id_to_piece(piece) for piece in source), "moved by the gate"):
        grid.add_column(head, justify="right")
    heads = [translator.target.id_to_piece(piece) for piece in target[1:]] + ["</s>"]
    for head, plain, gated in zip(heads, before, after, strict=True):
        cells = [f"{100 * value:.0f}" for value in gated.tolist()]
        grid.add_row(head, *cells, f"{50 * float((gated - plain).abs().sum()):.0f}")
    console.print(grid)
