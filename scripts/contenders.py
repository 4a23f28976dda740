"""Public implementations that a user could take from a package registry instead of ours, at the same shape.

A contender is one training step: forward pass, cross-entropy on the scored tail, backward pass, clipping, update. All
contenders have the same width, depth, heads, dropout and optimiser. Everything else is as in their libraries.

Shapes: B batch, T time, V vocabulary. `unscored` is the number of positions before the scored tail.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from swapped import SWAPS, Swapped
from torch import Tensor, nn

from highway.blocks.layers import sinusoids
from highway.cards.datasets import PADDING
from highway.cards.models import EncoderDecoder, Transformer, TransformerXL
from highway.config.experiment import Experiment
from highway.data.pairs import SENTENCE, PairBatch
from highway.run.compiled import lengths_vary
from highway.timing.stopwatch import Contender, Entry


@dataclass(frozen=True)
class Public(Entry):
    public: str = ""  # one of KINDS

    @property
    def kind(self) -> str:
        return self.public

    def build(self) -> Contender:
        model = KINDS[self.public](self.shape).to(self.device).train()
        if self.compiled:
            compile_forward(model, self.compiled, dynamic=lengths_vary(self.shape))
        parameters, config = list(model.parameters()), self.shape.optimizer
        optimizer: Any = torch.optim.SGD if config.name == "sgd" else torch.optim.Adam  # with torch's defaults

        def objective(batch: Any) -> Tensor:
            torch.compiler.cudagraph_mark_step_begin()
            logits = model(*given(batch))
            return F.cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten())

        def clip() -> None:
            if config.clip is not None:
                nn.utils.clip_grad_norm_(parameters, config.clip)

        return self.contender(model, objective, optimizer(parameters, lr=config.lr), clip)


def given(batch: Any) -> tuple[Any, ...]:
    """Return the inputs of a contender's model from a batch."""
    return (batch.source, batch.inputs) if isinstance(batch, PairBatch) else (batch.inputs, batch.unscored)


class Remembering(nn.Module):
    """A public model with a memory, from which the next step continues."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: Any = None
        self.next_window = self.window

    def window(self, tokens: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Return logits (B, T, V) and the memory after tokens (B, T)."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, unscored: int) -> Tensor:  # (B, T) -> (B, T, V)
        window = self.window if self.memory is None else self.next_window
        logits, memory = window(tokens, self.memory)
        self.memory = [part.detach().clone() for part in memory]  # a CUDA graph overwrites its outputs
        return logits


def compile_forward(model: nn.Module, mode: str, dynamic: bool) -> None:
    """Compile the forward pass of a public model, without its loss. Without a memory, a first window runs eagerly."""
    name = "next_window" if isinstance(model, Remembering) else "forward"
    setattr(model, name, torch.compile(getattr(model, name), mode=mode, dynamic=dynamic))


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with masks, embeddings and sinusoidal positions around it."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        model, sizes = experiment.model, experiment.dataset.vocabulary_sizes
        assert isinstance(model, EncoderDecoder)
        self.embeddings = nn.ModuleList(nn.Embedding(size, model.width) for size in sizes)
        self.inner = nn.Transformer(
            model.width,
            model.heads,
            model.layers,
            model.layers,
            model.feed_forward,
            model.dropout,
            batch_first=True,
            norm_first=model.norm == "pre",
        )
        for module in self.inner.modules():  # it has dropout in locations where ours, like the tutorial, has none
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p, module.dropout1.p = model.dropout_feed_forward, model.dropout_attention_output
            if isinstance(module, nn.TransformerDecoderLayer):
                module.dropout2.p = model.dropout_attention_output
        self.output = nn.Linear(model.width, sizes[1])
        self.dropout = nn.Dropout(model.dropout_embedding)
        self.scale = model.width**0.5
        self.register_buffer("positions", sinusoids(SENTENCE, model.width))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # (B, T), (B, T) -> (B, T, V)
        padding = source == PADDING
        x, y = (
            self.dropout(embedding(tokens) * self.scale + self.positions)
            for embedding, tokens in zip(self.embeddings, (source, target), strict=True)
        )
        future = nn.Transformer.generate_square_subsequent_mask(SENTENCE, device=source.device).isinf()
        masks: dict[str, Any] = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        return self.output(self.inner(x, y, tgt_mask=future, tgt_is_causal=True, **masks))


class TorchEncoder(nn.Module):
    """torch.nn.TransformerEncoder, pre-norm without a final norm, with a causal mask."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        model = experiment.model
        assert isinstance(model, Transformer)
        layer = nn.TransformerEncoderLayer(
            model.width, model.heads, model.feed_forward, model.dropout, batch_first=True, norm_first=True
        )
        self.embedding = nn.Embedding(experiment.dataset.vocabulary_size, model.width)
        self.encoder = nn.TransformerEncoder(layer, model.layers, enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(experiment.dataset.vocabulary_size))
        self.dropout = nn.Dropout(model.dropout_embedding)
        self.register_buffer("positions", sinusoids(experiment.dataset.train.window, model.width))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, unscored: int) -> Tensor:  # (B, T) -> (B, T - unscored, V)
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.dropout(self.embedding(tokens)) + self.positions[:length]  # type: ignore[index]
        features = self.encoder(x, mask=mask, is_causal=True)
        return F.linear(features[:, unscored:], self.embedding.weight, self.bias)


class XTransformer(nn.Module):
    """x-transformers' decoder with plain attention, sinusoidal positions and tied embeddings."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        from x_transformers import Decoder, TransformerWrapper

        model = experiment.model
        assert isinstance(model, Transformer)
        layers: Any = Decoder(
            dim=model.width,
            depth=model.layers,
            heads=model.heads,
            attn_dim_head=model.width // model.heads,
            ff_mult=model.feed_forward / model.width,
            ff_relu_squared=False,
            attn_dropout=model.dropout_attention,
            ff_dropout=model.dropout_feed_forward,
        )
        self.inner = TransformerWrapper(
            num_tokens=experiment.dataset.vocabulary_size,
            max_seq_len=experiment.dataset.train.window,
            attn_layers=layers,
            emb_dropout=model.dropout_embedding,
            scaled_sinu_pos_emb=True,
            tie_embedding=True,
        )

    def forward(self, tokens: Tensor, unscored: int) -> Tensor:  # (B, T) -> (B, T - unscored, V)
        return self.inner(tokens)[:, unscored:]


class PublicTransformerXL(Remembering):
    """transformers' TransfoXLLMHeadModel (in versions up to 4.35), without adaptive softmax."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        from transformers import TransfoXLConfig, TransfoXLLMHeadModel

        model = experiment.model
        assert isinstance(model, TransformerXL)
        config = TransfoXLConfig(
            vocab_size=experiment.dataset.vocabulary_size,
            cutoffs=[],
            d_model=model.width,
            d_embed=model.width,
            n_head=model.heads,
            d_head=model.head_width,
            d_inner=model.feed_forward,
            n_layer=model.layers,
            mem_len=experiment.dataset.train.memory,
            clamp_len=-1,
            div_val=1,
            adaptive=False,
            untie_r=False,
            dropout=model.dropout,
            dropatt=model.dropout_attention,
        )
        self.inner = TransfoXLLMHeadModel(config)

    def window(self, tokens: Tensor, memory: Any) -> tuple[Tensor, Any]:
        result = self.inner(tokens, mems=memory)
        return result.prediction_scores.view(*tokens.shape, -1), result.mems


class XTransformerWithMemory(Remembering):
    """x-transformers' decoder with recurrence. Its attention has no product of queries with positions."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        from x_transformers import Decoder, TransformerWrapper

        model = experiment.model
        assert isinstance(model, TransformerXL)
        layers: Any = Decoder(
            dim=model.width,
            depth=model.layers,
            heads=model.heads,
            attn_dim_head=model.head_width,
            ff_mult=model.feed_forward / model.width,
            ff_dropout=model.dropout,
            pre_norm=model.norm == "pre",
        )
        self.inner = TransformerWrapper(
            num_tokens=experiment.dataset.vocabulary_size,
            max_seq_len=experiment.dataset.train.window,
            max_mem_len=experiment.dataset.train.memory,
            attn_layers=layers,
            emb_dropout=model.dropout,
            scaled_sinu_pos_emb=True,
            tie_embedding=True,
        )

    def window(self, tokens: Tensor, memory: Any) -> tuple[Tensor, Any]:
        return self.inner(tokens, mems=memory, return_mems=True)


KINDS: dict[str, Callable[[Experiment], nn.Module]] = {
    "torch.nn.Transformer": TorchTransformer,
    "torch.nn.TransformerEncoder": TorchEncoder,
    "x-transformers": XTransformer,
    "TransfoXLLMHeadModel": PublicTransformerXL,
    "x-transformers with memory": XTransformerWithMemory,
}
MODULES = {
    "pytorch-tcn": "pytorch_tcn",
    "x-transformers": "x_transformers",
    "x-transformers with memory": "x_transformers",
    "TransfoXLLMHeadModel": "transformers.models.transfo_xl",
}


def installed(kind: str) -> bool:
    """Return True if the public implementation of this kind can be imported here."""
    try:
        return kind not in MODULES or find_spec(MODULES[kind]) is not None
    except ImportError:  # not even the package of the module, or a package that is broken
        return False


def lacks(kind: str, shape: Experiment) -> str:
    """Return why a public implementation cannot build the model of a shape; empty if it can."""
    model = shape.model
    if isinstance(model, EncoderDecoder) and model.head_width * model.heads != model.width:
        return f"{kind} cannot have {model.heads} heads of width {model.head_width} in a model of width {model.width}"
    return ""


def rivals(shape: Experiment, precision: str, device: str, compiled: str | None) -> list[Entry]:
    """Return the public implementations that are installed and can build the model; the first is the reference."""
    kinds = [kind for kind in shape.model_card.rivals if installed(kind) and not lacks(kind, shape)]
    if not hasattr(shape.dataset, "vocabulary_sizes"):  # public implementations here read only symbols
        kinds = [kind for kind in kinds if kind in SWAPS]
    return [(Swapped if kind in SWAPS else Public)(precision, shape, device, compiled, public=kind) for kind in kinds]
