"""Translating with a trained model of a cell, and where it looked."""

from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway.blocks.scored_attention import ScoredAttention
from highway.errors import Refused
from highway.tasks.decoding import Translator
from highway.use.load import load


def translator_of(directory: Path, last: bool = False) -> Translator:
    """The trained model of a cell, with the pieces of the data that it was trained on."""
    trained = load(directory, last, "translation")
    corpus = trained.streams
    return Translator(trained.model, corpus.source, corpus.target, trained.experiment.dataset.longest)


def check_layer(translator: Translator, layer: int) -> None:
    layers = len(translator.model.backbone.decoder)
    if not 1 <= layer <= layers:
        raise Refused(f"--attention {layer}: the model has layers 1 to {layers}.")


@torch.inference_mode()
def show_attention(translator: Translator, text: str, output: str, layer: int, console: Console) -> None:
    """Where each piece of the output looks, all heads together; with a score gate also how far it moved that."""
    source = translator.source.encode(text, add_bos=True, add_eos=True)[: translator.longest]
    target = translator.target.encode(output, add_bos=True)[: translator.longest]
    attention = translator.model.backbone.decoder[layer - 1].get_submodule("cross.function")
    assert isinstance(attention, ScoredAttention)
    attention.watched = []
    translator.model(translator.padded([source]), translator.padded([target]))
    before, after = (scores[0].softmax(-1).mean(0) for scores in attention.watched)
    attention.watched = None
    grid = Grid(box=SIMPLE_HEAD, title=f"cross-attention of layer {layer}, percent", title_justify="left")
    for head in ("", *(translator.source.id_to_piece(piece) for piece in source), "moved by the gate"):
        grid.add_column(head, justify="right")
    heads = [translator.target.id_to_piece(piece) for piece in target[1:]] + ["</s>"]
    for head, plain, gated in zip(heads, before, after, strict=True):
        cells = [f"{100 * value:.0f}" for value in gated.tolist()]
        grid.add_row(head, *cells, f"{50 * float((gated - plain).abs().sum()):.0f}")
    console.print(grid)
