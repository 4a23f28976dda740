"""The cards of all gates, by interface, and the keys of the group `gate`.

    residual   (x, fx, reads) -> sum                               around a sublayer f of a block
    score      (scores, earlier, mask, first_query) -> scores      inside an attention
    state      (previous, new, drop) -> state                      at every step of a recurrence

A new gate is one class in highway/gates/, one card here and one file in conf/gate/; a new option also goes to
tests/fixtures/neutral.yaml with its default (docs/RECIPES.md). Raise a card's `revision` when a fix changes the gate's
output; it is part of a run's identity.
"""

from typing import Any

from pydantic import SerializeAsAny
from pydantic.dataclasses import dataclass

from highway.cards.card import Card, Cards
from highway.errors import Refused, listing
from highway.keys.schema import STRICT, Written, choice, key, number, part, several

PSI = "psi in the gate's equation"


@dataclass(frozen=True, config=STRICT)
class GateCard(Card):
    """A gate. Its code is built from the width (score gates: predecessors and heads) and the options."""

    reads: tuple[str, ...] | None = None  # the options of its interface that it reads; None: perhaps all
    sideways: bool = False  # True if it reads neighbouring positions


OURS: dict[str, dict[str, GateCard]] = {
    "residual": {
        "none": GateCard(
            "highway.gates.residual:Sum",
            "x + f(x)",
            "The residual connection alone: the output of a sublayer is added to its input.",
            reads=(),
        ),
        "sdu": GateCard(
            "highway.gates.residual:SelfDependencyUnit",
            "x + f(x) + psi(x W1 + b1) * (x W2 + b2)",
            "A self-dependency unit: beside the output of the sublayer, each position adds a linear map of its own x. "
            "A second linear map of x, passed through psi, scales each component of the first.",
            reads=("activation", "reads", "inside_dropout"),
        ),
        "sdu_conv": GateCard(
            "highway.gates.residual:ConvolutionalUnit",
            "x + f(x) + psi(conv1(x) + b1) * (conv2(x) + b2)",
            "A self-dependency unit with two small convolutions in place of the linear maps: each position also reads "
            "the few positions just before it, and the gate has far fewer parameters.",
            reads=("activation", "reads", "inside_dropout", "kernel"),
            sideways=True,
        ),
        "highway": GateCard(
            "highway.gates.residual:HighwayGate",
            "(1 - T) * x + T * (x W2 + b2) + f(x),  T = sigmoid(x W1 + b1)",
            "A highway gate on the stream: T decides, component by component, how much of x is kept and how much is "
            "replaced by a linear map of x. The output of the sublayer is added as usual.",
            reads=("reads",),
        ),
        "gated_mhdpa": GateCard(
            "highway.gates.residual:GatedMHDPA",
            "x + (1 - T) * f(x) + T * (x W2 + b2),  T = sigmoid(x W1 + b1)",
            "A highway gate on the sublayer: T decides, component by component, how much of the sublayer's output is "
            "kept and how much is replaced by a linear map of x.",
            reads=("reads",),
        ),
    },
    "score": {
        "none": GateCard("highway.gates.scores:Scores", "softmax(S) V", "Attention scores without a gate.", reads=()),
        "realformer": GateCard(
            "highway.gates.scores:ResidualScores",
            "softmax(S + P) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
            "Attention scores with a residual connection: each layer adds the raw scores of the layers before it to "
            "its own.",
            reads=("predecessors", "accumulated", "attention"),
        ),
        "gated": GateCard(
            "highway.gates.scores:GatedScores",
            "softmax(S + P * psi(P W + B)) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
            "RealFormer's residual connection with a gate on it: a linear map over the positions decides, score by "
            "score, how much of the earlier layers' scores is added, and with which sign.",
            reads=(
                *("predecessors", "accumulated", "activation", "per_head", "each", "length", "as_printed"),
                "attention",
            ),
        ),
    },
    "state": {
        "none": GateCard(
            "highway.gates.state:NewState",
            "s[t] = new",
            "The state of a recurrent network without a gate.",
            reads=(),
        ),
        "hsg": GateCard(
            "highway.gates.state:HighwayStateGate",
            "s[t] = g * s[t-1] + (1 - g) * new,  g = sigmoid(W_R s[t-1] + W_F new + b)",
            "A highway from step to step: g decides, component by component, how much of the previous state is kept, "
            "and how much is replaced by the new state that the recurrence computes.",
            reads=("bias", "dropped"),
        ),
    },
}

GATES = {interface: Cards(f"{interface} gate", cards) for interface, cards in OURS.items()}
READINGS = {  # the symbols of an equation, by interface
    "residual": "x goes into a sublayer f, and the sum comes out",
    "score": "S holds the attention scores before the softmax, a number for each query and key",
    "state": "s[t-1] is the state before a step, and new is the state that the recurrence computes from it",
}


class _Chosen(Written):
    """The options of one interface; the card of the chosen gate names those that the gate reads."""

    def card(self) -> GateCard:
        raise NotImplementedError

    def unread(self) -> set[str]:
        """Return the options that the chosen gate does not read."""
        always_read = {"residual", "name", "score", "state"}
        card = self.card()
        if card.reads is None or card.options:  # a card of a project: whatever is set names its runs
            return set()
        return set(type(self).model_fields) - always_read - set(card.reads)

    def reads_option(self, name: str) -> bool:
        """Return True if the card of the chosen gate says that it reads a shared option."""
        return name in (self.card().reads or ())


class ScoreGateOptions(_Chosen):
    """The options of the score gate: how attention uses the scores of earlier layers."""

    name: str = key("none", options=lambda: tuple(GATES["score"]))
    predecessors: int = number(
        1, 1, description="number of earlier layers, or all where there are fewer", read_when={"accumulated": (False,)}
    )
    accumulated: bool = key(False, "all earlier layers, as in RealFormer's released code")
    activation: str = choice("tanh", "sigmoid", description=PSI)
    per_head: bool = key(False, "true: W and B for each head; false: one pair for all")
    each: bool = key(False, "true: W and B for each predecessor; false: one pair for their sum")
    length: int = number(64, 1, description="W and B have the shape (length, length)")
    as_printed: bool = key(
        False, "true: the formula as printed in the paper, with which the decoder reads future positions"
    )
    attention: list[str] = several("encoder", "decoder", "cross", description="the kinds of attention that have a gate")

    def card(self) -> GateCard:
        return GATES["score"][self.name]

    def fits(self, experiment: Any) -> None:
        """Refuse options that do not fit the model or the data set."""
        model, longest = experiment.model.name, experiment.dataset.longest_text
        known = experiment.model_card.locations["score"]
        for attention in self.attention:
            if attention not in known:
                raise Refused(
                    f"gate.score.attention={attention} is unknown in {model}. Available: {listing(list(known))}."
                )
        if self.reads_option("length") and longest > self.length:
            raise Refused(
                f"gate.score.length={self.length} is too small for texts of {longest} positions: "
                f"set gate.score.length={longest} or more."
            )


class StateGateOptions(_Chosen):
    """The options of the state gate: how a recurrence keeps its previous state."""

    name: str = key("none", options=lambda: tuple(GATES["state"]))
    bias: float = number(
        -2.5, -50, 50, description="initial bias of g; at the default almost nothing of the previous state is kept"
    )
    dropped: bool = key(
        True,
        "true: the recurrence's dropout mask applies to the inputs of W_R and W_F, never to the state that is kept",
    )

    def card(self) -> GateCard:
        return GATES["state"][self.name]


class GateOptions(_Chosen):
    residual: str = key("none", "gate on the residual connection", options=lambda: tuple(GATES["residual"]))
    activation: str = choice("sigmoid", "tanh", "one", "identity", description=f"{PSI}; one: without W1")
    reads: str = choice(
        "stream", "normalised", description="input of the gate in a pre-norm block, where f reads the normalised x"
    )
    inside_dropout: bool = key(
        False, "the sublayer's dropout applies to f(x) and the gate's unit together, by one mask: x + drop(f(x) + unit)"
    )
    kernel: int = number(3, 1, description="positions that one output reads, its own included")
    score: SerializeAsAny[ScoreGateOptions] = part(ScoreGateOptions, "gate on attention scores")
    state: SerializeAsAny[StateGateOptions] = part(StateGateOptions, "gate on the state of a recurrent network")

    def card(self) -> GateCard:
        return GATES["residual"][self.residual]

    def fits(self, experiment: Any) -> None:
        """Refuse options that do not fit the model, the data set or its task."""
        norm = getattr(experiment.model, "norm", "pre")  # a model without this key is pre-norm
        if self.reads_option("reads") and self.reads == "normalised" and norm == "post":
            raise Refused(
                "gate.reads=normalised needs model.norm=pre, because post-norm sublayers read the stream itself."
            )
        if self.inside_dropout and self.residual != "none" and not self.reads_option("inside_dropout"):
            units = [name for name, card in GATES["residual"].items() if "inside_dropout" in (card.reads or ())]
            raise Refused(
                f"gate.inside_dropout=true: {self.residual} adds no unit of its own to the sublayer. "
                f"Gates that do: {listing(units)}. Leave it out, or choose one of these."
            )
        if self.score.name != "none":
            self.score.fits(experiment)
        undropped = self.state.reads_option("dropped") and not self.state.dropped
        if undropped and not hasattr(experiment.model, "dropout_state"):
            raise Refused(
                f"gate.state.dropped=false: {experiment.model.name} has no dropout on its state. Leave it out."
            )

    def chosen(self) -> dict[str, str]:
        """Return a dictionary from each interface to the name of its gate."""
        return {"residual": self.residual, "score": self.score.name, "state": self.state.name}

    def activation_of(self, interface: str) -> str | None:
        """Return the activation psi of an interface's gate; None if the gate has no psi."""
        options = self if interface == "residual" else getattr(self, interface)
        return options.activation if options.reads_option("activation") else None
