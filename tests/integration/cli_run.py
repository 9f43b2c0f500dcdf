"""A text and sizes of a model for tests of the command line."""

# Texts that a tiny model learns something of within a few steps.
WORDS = "the ship sails and the wind turns; a storm comes, the ship waits. "
SIZES = [
    *("--segment-length", "16", "--memory-length", "16"),
    *("--batch-size", "4", "--num-layers", "1", "--num-heads", "2"),
    *("--hidden-dim", "16", "--intermediate-dim", "32"),
]
