"""Operations that the graphs of an archive may be made of.

They are what signatures of models of every architecture, type and tokenizer
are made of, and for activations and tokenizers of one's own what computes the
like. Whatever asks for Python, a file, a random state or a place to write is
not among them: a server would refuse it, or would answer the same request in
another way the next time.
"""

from collections.abc import Set
from typing import Any

COMPUTATION = frozenset(
    """
    Abs Acos Acosh Add AddN AddV2 All Any ArgMax ArgMin Asin Asinh Assert
    Atan Atan2 Atanh BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd
    Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs
    BroadcastTo Cast Ceil ClipByValue ConcatV2 Const Cos Cosh Cumprod Cumsum
    DenseBincount DivNoNan Einsum Elu EnsureShape Equal Erf Erfc Erfinv Exp
    ExpandDims Expm1 Fill Floor FloorDiv FloorMod GatherNd GatherV2 Greater
    GreaterEqual Identity IdentityN If Invert IsFinite IsInf IsNan LeakyRelu
    LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogSoftmax LogicalAnd
    LogicalNot LogicalOr LowerBound MatMul MatrixBandPart Max Maximum Mean
    Min Minimum Mul MulNoNan Neg NoOp NotEqual OneHot OnesLike Pack Pad
    PadV2 PartitionedCall Placeholder PlaceholderWithDefault Pow
    PreventGradient Prod Range Rank ReadVariableOp RealDiv Reciprocal Relu
    Relu6 Reshape ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd
    Select SelectV2 Selu Shape ShapeN Sigmoid Sign Sin Sinh Size Slice
    Snapshot Softmax Softplus Softsign Split SplitV Sqrt Square
    SquaredDifference Squeeze StatefulPartitionedCall StatelessCase
    StatelessIf StatelessWhile StopGradient StridedSlice Sub Sum Tan Tanh
    TensorListElementShape TensorListFromTensor TensorListGetItem
    TensorListLength TensorListReserve TensorListSetItem TensorListStack
    TensorScatterUpdate Tile TopKV2 Transpose Unique Unpack
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound
    Where While Xdivy Xlog1py Xlogy ZerosLike
    """.split()
)
"""Of every signature. Those that TensorFlow calls stateful read a weight
(`ReadVariableOp`), refuse a request (`Assert`), or run a function that is made
of the others (`If`, `StatefulPartitionedCall`, `While`)."""

TEXT = frozenset(
    """
    AsString DecodeRaw Fingerprint LookupTableFindV2 LookupTableSizeV2
    RaggedGather RaggedRange RaggedTensorToTensor ReduceJoin RegexFullMatch
    RegexReplace StaticRegexFullMatch StaticRegexReplace StringJoin
    StringLength StringLower StringNGrams StringSplit StringSplitV2
    StringStrip StringToNumber StringUpper Substr UnicodeDecode
    UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode
    UnsortedSegmentJoin
    """.split()
)
"""Of `generate_text` as well: strings, and looking up in a table."""

TEXT_LIBRARY = frozenset(
    """
    CaseFoldUTF8 FastBertNormalize FastWordpieceTokenizeWithOffsets
    LookupTableInsertV2 NormalizeUTF8 RegexSplitWithOffsets
    SentencepieceDetokenizeOp SentencepieceIdToStringOp
    SentencepieceStringToIdOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp
    SplitMergeTokenizeWithOffsets TFText>FastSentencepieceDetokenize
    TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize
    TFText>WhitespaceTokenizeWithOffsetsV2 UnicodeScriptTokenizeWithOffsets
    WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
    """.split()
)
"""Of `generate_text` in an archive of its own as well: the tokenizers of
TensorFlow Text. `LookupTableInsertV2` is how byte pairs of KerasHub remember
words that they have seen."""

SESSION = frozenset(
    """
    ResourceGather ResourceScatterNdUpdate
    """.split()
)
"""Of `session_step` as well: the slots of the memory that a server keeps."""

LOADING = frozenset(
    """
    AssignVariableOp DisableCopyOnRead HashTableV2 LookupTableExportV2
    LookupTableImportV2 MergeV2Checkpoints MutableHashTableV2 RestoreV2
    SaveV2 SentencepieceOp ShardedFilename VarHandleOp
    """.split()
)
"""In an archive beside the signatures: a loader makes weights and tables by
them. No signature may have them."""


def operations(graph: Any) -> set[str]:
    """Names of the operations of a graph and of the functions in it."""
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes += function.node_def
    functions = {f.signature.name for f in graph.library.function}
    return {node.op for node in nodes} - functions


def foreign_operations(function: Any) -> list[str]:
    """Operations of a traced function that TensorFlow itself has not."""
    import tensorflow as tf

    return sorted(
        name
        for name in operations(function.graph.as_graph_def())
        if not hasattr(tf.raw_ops, name)
    )


def allowed_operations(signature: str, apart: bool = False) -> Set[str]:
    """What a signature may be made of.

    Args:
        signature: its name.
        apart: bool. Whether it is in an archive of its own, for a server with
            TensorFlow Text.
    """
    if signature == "session_step":
        return COMPUTATION | SESSION
    if signature != "generate_text":
        return COMPUTATION
    return COMPUTATION | TEXT | (TEXT_LIBRARY if apart else frozenset())


def check_operations(
    signature: str, function: Any, apart: bool = False
) -> None:
    """Refuse a signature that is made of anything else.

    Args:
        signature: its name.
        function: traced.
        apart: see `allowed_operations`.

    Raises:
        ValueError: if it is.
    """
    found = operations(function.graph.as_graph_def())
    others = sorted(found - allowed_operations(signature, apart))
    if others:
        raise ValueError(
            "A signature must be made of operations that a server runs "
            "without Python, files and random state. Received: "
            f"{', '.join(others)} in {signature}. Write the tokenizer or the "
            "activation that they come from with other operations (those of "
            "keras_txl/export/operations.py)."
        )
