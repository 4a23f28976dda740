"""What gates there are, by interface, and the keys of the group `gate`.

    residual   (x, fx, reads) -> sum                               around a sublayer f of a block
    score      (scores, earlier, mask, first_query) -> scores      inside an attention
    state      (previous, new, drop) -> state                      at every step of a recurrence

A new gate is one class in highway/gates/, one card here and one file in conf/gate/. A `revision` is raised by hand
when a fix changes the numbers that the gate gives; it is part of a cell's identity.
"""

from dataclasses import dataclass

from highway.config.fields import choice, key, number, one_of, part, several


@dataclass(frozen=True)
class GateCard:
    code: str  # "module:class"; built from the width, the score gates from (predecessors, heads), and the options
    equation: str
    words: str  # for someone who has not read the paper
    reads: tuple[str, ...] = ()  # which options of its interface
    sideways: bool = False  # reads neighbouring positions
    revision: int = 1


GATES: dict[str, dict[str, GateCard]] = {
    "residual": {
        "none": GateCard(
            "highway.gates.residual:Sum",
            "x + f(x)",
            "The residual connection alone: what a sublayer computes is added to what it was given.",
        ),
        "sdu": GateCard(
            "highway.gates.residual:SelfDependencyUnit",
            "x + f(x) + psi(x W1 + b1) * (x W2 + b2)",
            "A self-dependency unit: beside what the sublayer computes, each position adds something that it computes "
            "from itself alone, a linear map of x whose every component a second map, through psi, lets pass more or "
            "less.",
            reads=("activation", "reads"),
        ),
        "sdu_conv": GateCard(
            "highway.gates.residual:ConvolutionalUnit",
            "x + f(x) + psi(conv1(x) + b1) * (conv2(x) + b2)",
            "A self-dependency unit with two small convolutions in place of the linear maps: each position also sees "
            "the few positions just before it, and far fewer parameters are added.",
            reads=("activation", "reads", "kernel"),
            sideways=True,
        ),
        "highway": GateCard(
            "highway.gates.residual:HighwayGate",
            "(1 - T) * x + T * (x W2 + b2) + f(x),  T = sigmoid(x W1 + b1)",
            "A highway gate on the stream: T decides, component by component, how much of x is carried on as it is and "
            "how much is replaced by a linear map of it; what the sublayer computes is added as usual.",
            reads=("reads",),
        ),
        "gated_mhdpa": GateCard(
            "highway.gates.residual:GatedMHDPA",
            "x + (1 - T) * f(x) + T * (x W2 + b2),  T = sigmoid(x W1 + b1)",
            "A highway gate on the sublayer: T decides, component by component, how much of what the sublayer computes "
            "is kept and how much is replaced by a linear map of x.",
            reads=("reads",),
        ),
    },
    "score": {
        "none": GateCard("highway.gates.scores:Scores", "softmax(S) V", "Attention scores as they are."),
        "realformer": GateCard(
            "highway.gates.scores:ResidualScores",
            "softmax(S + P) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
            "Attention scores with a residual connection of their own: to how much each position wants to look at each "
            "other, a layer adds what the layers before it wanted.",
            reads=("predecessors", "accumulated", "attention"),
        ),
        "gated": GateCard(
            "highway.gates.scores:GatedScores",
            "softmax(S + P * psi(P W + B)) V,  S = Q K^T / sqrt(d),  P = the S of the last 1, 2 or 3 layers, summed",
            "The same connection with a gate on it: a map over the positions decides, score by score, how much of what "
            "the earlier layers wanted is let through, and with which sign.",
            reads=(
                *("predecessors", "accumulated", "activation", "per_head", "each", "length", "as_printed"),
                "attention",
            ),
        ),
    },
    "state": {
        "none": GateCard("highway.gates.state:NewState", "s[t] = new", "A recurrence's state as it is."),
        "hsg": GateCard(
            "highway.gates.state:HighwayStateGate",
            "s[t] = g * s[t-1] + (1 - g) * new,  g = sigmoid(W_R s[t-1] + W_F new + b)",
            "A highway from step to step: g decides, component by component, how much of the state of the step before "
            "is carried on, past everything that the recurrence does with it.",
            reads=("bias", "dropped"),
        ),
    },
}

READINGS = {  # what the letters of an equation are, by interface
    "residual": "x goes into a sublayer f, and the sum comes out",
    "score": "S is what attention makes its softmax of, a number for each query and key",
    "state": "s[t - 1] is the state before a step, new what the recurrence makes of it",
}


class _Chosen:
    """Options of a gate are read by it alone: its card says which."""

    def card(self) -> GateCard:
        raise NotImplementedError

    def unread(self) -> set[str]:
        own = {"residual", "name", "score", "state"}
        return set(self.__dataclass_fields__) - own - set(self.card().reads)  # type: ignore[attr-defined]


@dataclass
class ScoreGateOptions(_Chosen):
    """What attention scores take from those of earlier layers."""

    name: str = one_of("none", lambda: tuple(GATES["score"]))
    predecessors: int = number(
        1, 1, words="how many earlier layers, where there are as many", read_when={"accumulated": (False,)}
    )
    accumulated: bool = key(False, "all earlier layers, as RealFormer's own code")
    activation: str = choice("tanh", "sigmoid")
    per_head: bool = key(False, "W and B for each head; else one pair for all")
    each: bool = key(False, "W and B for each predecessor; else one pair for their sum")
    length: int = number(64, 1, words="W and B are length x length")
    as_printed: bool = key(False, "the formula as the paper has it, in which the decoder reads the future")
    attention: list[str] = several("encoder", "decoder", "cross", words="which kinds of attention have one")

    def card(self) -> GateCard:
        return GATES["score"][self.name]


@dataclass
class StateGateOptions(_Chosen):
    """What a recurrent state keeps of the one before."""

    name: str = one_of("none", lambda: tuple(GATES["state"]))
    bias: float = number(-2.5, -50, 50, words="that of g starts at this: next to nothing is carried on")
    dropped: bool = key(True, "what the gate's maps read is dropped by the recurrence's mask; what is carried is not")

    def card(self) -> GateCard:
        return GATES["state"][self.name]


@dataclass
class GateOptions(_Chosen):
    residual: str = one_of("none", lambda: tuple(GATES["residual"]))
    activation: str = choice("sigmoid", "tanh")
    reads: str = choice("stream", "normalised", words="what the gate reads where f reads the normalised x")
    kernel: int = number(3, 1, words="positions that one output sees, itself included")
    score: ScoreGateOptions = part(ScoreGateOptions)
    state: StateGateOptions = part(StateGateOptions)

    def card(self) -> GateCard:
        return GATES["residual"][self.residual]

    def chosen(self) -> dict[str, str]:
        """Interface -> the name of its gate."""
        return {"residual": self.residual, "score": self.score.name, "state": self.state.name}

    def activation_of(self, interface: str) -> str | None:
        """The psi of an interface's gate, where it reads one."""
        options = self if interface == "residual" else getattr(self, interface)
        return options.activation if "activation" in options.card().reads else None
