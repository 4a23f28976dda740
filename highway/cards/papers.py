"""The papers whose tables are reproduced: who wrote them, what they claim, and where their code is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, as in a bibliography, what it claims, and the address of its code."""

    authors: tuple[str, ...]
    title: str
    message: str  # what it says of its models, in our words
    venue: str = ""
    year: int | None = None
    doi: str = ""
    arxiv: str = ""
    code: str = ""  # the authors' repository; empty: none is public

    @property
    def links(self) -> dict[str, str]:
        """Return the addresses of the paper and of its code, by what they lead to."""
        addresses = {
            f"DOI {self.doi}": f"https://doi.org/{self.doi}" if self.doi else "",
            f"arXiv {self.arxiv}": f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else "",
            "authors' code": self.code,
        }
        return {title: address for title, address in addresses.items() if address}


PAPERS = {  # name in table files -> paper
    "Highway Transformer": Paper(
        ("Yekun Chai", "Shuo Jin", "Xinwen Hou"),
        "Highway Transformer: Self-Gating Enhanced Self-Attentive Networks",
        "With self-dependency units (SDUs) beside its sublayers, a Transformer learns faster and mostly ends better.",
        "Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics",
        2020,
        "10.18653/v1/2020.acl-main.616",
        "2004.08178",
        "https://github.com/cyk1337/Highway-Transformer",
    ),
    "Highway State Gating": Paper(
        ("Ron Shoham", "Haim Permuter"),
        "Highway State Gating for Recurrent Highway Networks: Improving Information Flow Through Time",
        "A gate on the state of a recurrent highway network lowers perplexity, more so in deeper networks.",
        "Lecture Notes in Computer Science",
        2018,
        doi="10.1007/978-3-319-94147-9_10",
        arxiv="1805.09238",
    ),
    "Gated ResNet Transformer": Paper(
        ("Mubtasim Fuad Mahde", "Ahnaf Hassan"),
        "Gated ResNet Architecture for Transformer Multi-head Attention Block",
        "With gated scores of earlier layers (G1), a Transformer translates better than without, and than RealFormer.",
    ),
    "R-Transformer": Paper(
        ("Zhiwei Wang", "Yao Ma", "Zitao Liu", "Jiliang Tang"),
        "R-Transformer: Recurrent Neural Network Enhanced Transformer",
        "With small recurrent networks below attention, a Transformer outperforms the usual one and TCN on most tasks.",
        year=2019,
        arxiv="1907.05572",
        code="https://github.com/DSE-MSU/R-transformer",
    ),
}


def paper_name(origin: str) -> str:
    """Return the name in a table's `paper`, such as `R-Transformer, Table 2`."""
    return origin.rpartition(", ")[0]


def paper_of(origin: str) -> Paper | None:
    """Return the paper of a table's `paper`, such as `R-Transformer, Table 2`; None for any other table."""
    return PAPERS.get(paper_name(origin))
