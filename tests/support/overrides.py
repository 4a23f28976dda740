"""Overrides with which a test trains in seconds on one core."""

TINY = (  # a small Transformer on characters
    "budget=smoke",
    "model.width=16",
    "model.heads=2",
    "model.feed_forward=32",
    "dataset.train={lanes:4,window:24,stride:20,scored:20}",
    "dataset.evaluation={lanes:40,window:24,stride:20,scored:20}",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
    "trainer.max_steps=null",
    "trainer.validate_every=null",
)

SHORT = (  # epochs of four steps, each ending with a validation that lowers the rate; dropout and gates are on
    "gate=sdu_tanh",
    "dataset.train={lanes:370,window:24,stride:20,scored:20}",
    "trainer.max_epochs=3",
    "trainer.log_every=3",
    "model.dropout=0.3",
    "optimizer.lr=8",
    "optimizer.plateau={after_epoch:0,window:1,divide_by:2,strict:false}",
)

CARRY = (  # a text whose lanes carry the state from one window to the next
    "dataset.carry_state=true",
    "dataset.train={lanes:4,window:20,stride:20,scored:20}",
    "dataset.evaluation={lanes:2,window:50,stride:50,scored:50}",
)

SHORT_LAST = "dataset.train={lanes:370,window:24,stride:20,scored:20}"  # an epoch ends with a shorter window
CARRIES = (  # a Transformer-XL whose epochs end with a shorter window
    *(
        f"dataset.{split}={{lanes:{lanes},window:20,stride:20,scored:20}}"
        for split, lanes in (("train", 370), ("evaluation", 10))
    ),
    *("dataset.carry_state=true", "model=transformer_xl", "model.head_width=8"),
)

# Few steps, for tests of sweeps
FEW = ("trainer.max_steps=3", "trainer.validate_every=3", "trainer.evaluation_batch=64")


def two_steps(task: str) -> list[str]:
    """Return the overrides with which a row at smoke budget trains two steps, and is validated and evaluated."""
    steps = ["trainer.max_steps=2", "trainer.validate_every=2", "debug.windows=2"]
    device = ["trainer.threads=1", "trainer.accelerator=cpu"]
    # the text of an untrained model never ends by itself
    short = ["dataset.longest=16", "gate.score.length=16"] if task == "translation" else []
    return [*steps, *device, *short]


RESIDUAL_GATES = [
    "none",
    "sdu_tanh",
    "sdu_sigmoid",
    "sdu_linear",
    "sdu_bilinear",
    "sdu_conv_tanh",
    "highway",
    "gated_mhdpa",
]

_ON_CPU = ("budget=smoke", "trainer.threads=1", "trainer.accelerator=cpu", "trainer.log_every=2")
PIXELS = ("dataset=mnist", "dataset.side=4", "trainer=pixels", "optimizer=adam_steps", *_ON_CPU)
MUSIC = ("dataset=nottingham", "trainer=music", *_ON_CPU)
SMALL = ("model.width=16", "model.layers=1", "model.feed_forward=32", "model.heads=2")
EXAMPLES = {  # the tasks whose data are examples: images and tunes
    "images": ("model=r_transformer_pixels", *SMALL, *PIXELS),
    "tunes": ("model=gru", "model.input=88", "model.width=16", "optimizer=adam_music", *MUSIC),
}

PAIRS = (  # translation
    "model=encoder_decoder",
    "dataset=iwslt_pt_en",
    "optimizer=adam_inverse_sqrt",
    "trainer=translation",
    "layers=none",
    "budget=smoke",
    "model.width=16",
    "model.heads=2",
    "model.layers=2",
    "model.feed_forward=16",
    "dataset.form=bpe",
    "dataset.pieces.sample=[120,90]",
    "dataset.timed_sentences=1",
    "dataset.batch=32",
    "trainer.max_steps=12",
    "trainer.validate_every=5",
    "trainer.log_every=3",
    "trainer.threads=1",
    "trainer.accelerator=cpu",
)

EVERY_STEP = (*SHORT, "trainer.checkpoint_seconds=0")  # the same with a checkpoint after every step
