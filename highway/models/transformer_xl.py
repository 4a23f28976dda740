"""The Transformer-XL language model of Highway Transformer (Chai et al., 2020), sections 2.3 and 4.2.

    H_0 = drop(E sqrt(D))                                     embeddings of a segment of T symbols
    U_l = LN(gate(H_l, drop(Att([M_l; H_l]))))                Eqs. 10-14: queries from the segment, keys and values
    H_l+1 = LN(gate(U_l, drop(FFN(U_l))))                     from memory and segment, positions by their distance
    M_l = the last M of [M_l; H_l], without its history       what block l reads for the next segment
    softmax(drop(H_L) E^T + b)                                output weights tied to the embedding

Post-norm as printed; pre-norm normalises what a sublayer reads. u and v are shared by all layers. The memory is of
fixed length from the first step on, with the number of its positions that are filled, so that shapes never change.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.dropout import dropout
from highway.blocks.feed_forward import FeedForward
from highway.blocks.normalisation import LayerNorm
from highway.blocks.positions import distance_codes
from highway.blocks.relative_attention import RelativeAttention
from highway.blocks.sublayer import Sublayer
from highway.config.schema import Cut, Experiment, TransformerXL
from highway.models.initial import initialise_normal

Memory = tuple[Tensor, ...]  # how many positions are filled, then (B, M, D) for each block, lanes first


class Block(nn.Module):
    def __init__(self, model: TransformerXL, experiment: Experiment, gated: Collection[str]) -> None:
        super().__init__()
        gate = experiment.gate
        attention = RelativeAttention(model.width, model.heads, model.head_width, model.dropout_attention)
        feed_forward = FeedForward(model.width, model.feed_forward, model.dropout)
        norms = [LayerNorm(model.width, "biased") for _ in range(2)]
        self.attention = Sublayer(attention, model, gate, "attention" in gated, norms[0], model.dropout)
        self.feed_forward = Sublayer(feed_forward, model, gate, "feed_forward" in gated, norms[1], model.dropout)

    def forward(self, x: Tensor, memory: Tensor, distances: Tensor, u: Tensor, v: Tensor, unseen: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x, memory, distances, u, v, unseen))


class TransformerXLLanguageModel(nn.Module):
    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        model = experiment.model
        assert isinstance(model, TransformerXL)
        self.embedding = nn.Embedding(experiment.dataset.vocabulary_size, model.width)
        self.output_bias = nn.Parameter(torch.zeros(experiment.dataset.vocabulary_size))
        self.content_bias = nn.Parameter(torch.empty(model.heads, model.head_width))  # u
        self.position_bias = nn.Parameter(torch.empty(model.heads, model.head_width))  # v
        self.scale = model.width**0.5
        self.dropout = model.dropout
        self.training_cut, self.evaluation_cut = experiment.dataset.train, experiment.dataset.evaluation
        self.codes: Tensor
        self.register_buffer("codes", torch.empty(0, model.width), persistent=False)
        self.blocks = nn.ModuleList(
            Block(model, experiment, experiment.gated_in(layer)) for layer in range(1, model.layers + 1)
        )
        initialise_normal(self, experiment.seed, model.init_deviation)

    @property
    def cut(self) -> Cut:
        """How the stream is read now: memory length and clamp differ between training and evaluation."""
        return self.training_cut if self.training else self.evaluation_cut

    def forward(self, tokens: Tensor, state: Memory | None = None) -> tuple[Tensor, Memory]:
        """tokens (B, T), what the segment before left -> features (B, T, D), what this one leaves."""
        length = tokens.shape[1]
        filled, *memories = state or self._empty_memory(tokens.shape[0])
        size = memories[0].shape[1]
        unseen = unseen_keys(length, size, filled, self.cut.same_length)
        distances = dropout(self._distances(size + length), self.dropout, self.training)
        x = dropout(self.embedding(tokens) * self.scale, self.dropout, self.training)
        left = []
        for block, memory in zip(self.blocks, memories, strict=True):
            left.append(last_positions(memory, x.to(memory.dtype)))
            x = block(x, memory, distances, self.content_bias, self.position_bias, unseen)
        return dropout(x, self.dropout, self.training), ((filled + length).clamp(max=size), *left)

    def logits(self, features: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return F.linear(features, self.embedding.weight, self.output_bias)

    def _empty_memory(self, lanes: int) -> Memory:
        like = self.embedding.weight
        empty = like.new_zeros(lanes, self.cut.memory, like.shape[1])
        return torch.zeros((), dtype=torch.int64, device=like.device), *(empty for _ in self.blocks)

    def _distances(self, keys: int) -> Tensor:
        """Codes of the distances keys-1 ... 0, and one more that no query looks at; (keys+1, D)."""
        if self.codes.shape[0] < keys:
            self.codes = distance_codes(keys, self.codes.shape[1]).to(self.codes)
        distance = torch.arange(keys - 1, -2, -1, device=self.codes.device).clamp(min=0, max=self.cut.clamp)
        return self.codes[distance]


def last_positions(memory: Tensor, x: Tensor) -> Tensor:
    """The last M positions of memory and segment; nothing is copied where the segment alone has as many."""
    size, length = memory.shape[1], x.shape[1]
    if length >= size:
        return x[:, length - size :]
    return torch.cat((memory[:, length:], x), dim=1)


def unseen_keys(length: int, memory: int, filled: Tensor, same_length: bool) -> Tensor:
    """Which keys a query must not see, (T, M+T): those after it, and places of the memory that are not filled yet.

    same_length: every query sees the last M keys, itself included, where otherwise later queries see more.
    """
    query = torch.arange(length, device=filled.device)[:, None]
    key = torch.arange(memory + length, device=filled.device)[None]
    unseen = (key > query + memory) | (key < memory - filled)
    return unseen | (key <= query) if same_length else unseen
