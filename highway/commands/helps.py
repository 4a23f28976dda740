"""The commands, and the examples and exit codes that their help shows. Imports nothing."""

COMMANDS = {  # the subcommands; each is a module of highway/commands/ with a function main()
    "init": "begin a project of your own, with a gate, a data set and a table",
    "train": "train a model, or with -m a table or a grid",
    "table": "show the progress of a table, explain its rows, or time them",
    "report": "render tables and the web site from the records",
    "publish": "copy the records of a table to the published ones, or to a folder",
    "card": "write a model card with weights and configuration",
    "data": "list, download or verify data sets",
    "generate": "generate text or music with a trained model",
    "translate": "translate with a trained model",
    "dashboard": "show a table on Weights & Biases",
    "audit": "check statements of the papers against their numbers and models",
    "benchmark": "compare training speed with public implementations",
    "gpu-check": "run every check that needs a GPU, and write one report",
    "completion": "print what your shell needs to complete commands, tables and overrides",
}
EXAMPLES: dict[str, tuple[str, str, str]] = {
    "init": (
        "highway init myproject",
        "highway init my_gates",
        "highway init projects/layer_scale",
    ),
    "train": (
        "highway train model=transformer gate=sdu_tanh dataset=ptb_char seed=1",
        "highway train -m table=highway_t1 budget=smoke seeds=1,2",
        "highway train -m name=rates gate=none,sdu_tanh optimizer.lr=0.5,1.0 budget=smoke",
    ),
    "table": (
        "highway table status highway_t3",
        "highway table explain highway_t1 tanh",
        "highway table time highway_t7 --budget mini",
    ),
    "report": (
        "highway report",
        "highway report highway_t3 --budget mini",
        "highway report --data runs.parquet",
    ),
    "publish": (
        "highway publish highway_t3",
        "highway publish highway_t3 --budget mini --to ~/highway_t3",
        "highway publish rates --to shared/rates",
    ),
    "card": (
        "highway card outputs/highway_t1/smoke/tanh/seed1",
        "highway card outputs/highway_t1/smoke/tanh/seed1 --into card",
        "highway card outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 --into ~/g1",
    ),
    "data": (
        "highway data list",
        "highway data prepare ptb_word --source sample",
        "highway data verify enwik8",
    ),
    "generate": (
        'highway generate outputs/highway_t5/smoke/tanh/seed1 --prompt "the" --top-p 0.9',
        "highway generate outputs/highway_t5/smoke/tanh/seed1 --length 2000 --temperature 0",
        "highway generate outputs/r_transformer_t2/smoke/r_transformer/seed1 --tune 3 --midi tune.mid",
    ),
    "translate": (
        'highway translate outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 "este é um problema ."',
        "highway translate outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 --file talk.pt --beam 4",
        "highway translate outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 --file talk.pt --attention 4",
    ),
    "dashboard": (
        "highway dashboard highway_t5 --dry-run",
        "highway dashboard highway_t5 --budget mini --send",
        "highway dashboard --sync",
    ),
    "audit": (
        "highway audit",
        "highway audit highway_t3 highway_t4",
        "highway audit --write audit.md",
    ),
    "benchmark": (
        "highway benchmark highway_t3 --budget smoke --rounds 2",
        "highway benchmark highway_t2 --local-rnn",
        "highway benchmark --overhead",
    ),
    "gpu-check": (
        "highway gpu-check",
        "highway gpu-check --tables highway_t1 --budget smoke",
        "highway gpu-check --device cpu --tables highway_t1 --budget smoke",
    ),
    "completion": (
        'eval "$(highway completion)"',
        "highway completion >> ~/.bashrc",
        'autoload -U bashcompinit && bashcompinit && eval "$(highway completion)"',
    ),
}
USUAL = {0: "done", 2: "the command is wrong", 4: "a file cannot be written"}
EXIT_CODES: dict[str, dict[int, str]] = {
    "train": {
        **USUAL,
        0: "finished",
        1: "a run failed",
        3: "the run diverged",
        130: "interrupted; the same command resumes",
    },
    "dashboard": {**USUAL, 1: "an upload failed"},
    "benchmark": {**USUAL, 1: "a table could not be measured"},
    "gpu-check": {**USUAL, 0: "done, or there is no GPU", 1: "a check failed"},
}


def ending(command: str) -> str:
    """Return the last part of a command's help: three examples, and the exit codes."""
    examples = "\n".join(f"  {example}" for example in EXAMPLES[command])
    codes = "\n".join(f"  {code:<3} {meaning}" for code, meaning in sorted(EXIT_CODES.get(command, USUAL).items()))
    return f"examples:\n{examples}\n\nexit codes:\n{codes}"
