"""Operations of torch by what they do to rows. They are named by their nodes in a graph.

An operation in none of these lists is unknown. ``row_moves`` then has every lot certified.
"""

__all__ = ["ELEMENTWISE", "INSIDE", "SHAPES", "node_names"]


def node_names(names: str, *endings: int) -> list[str]:
    """The names of the nodes of operations. An operation can have several nodes, one for each ending."""
    return [f"{name}Backward{ending}" for name in names.split() for ending in endings]


ELEMENTWISE = frozenset(
    node_names(
        "Abs Acos Acosh Add Addcdiv Addcmul Asin Asinh Atan Atan2 Atanh Ceil Celu Clamp ClampMax ClampMin "
        "Clone Copysign Cos Cosh Div Elu Erf Erfc Exp Exp2 Expm1 Floor Gelu Hardshrink Hardsigmoid "
        "Hardswish Hardtanh LeakyRelu Lerp Log Log10 Log1P Log2 LogSigmoid Logaddexp Logit MaskedFill "
        "Maximum Minimum Mish Mul NanToNum NativeDropout Neg Pow Prelu PreluKernel Reciprocal Relu Relu6 "
        "Round RreluWithNoise Rsqrt Rsub Selu Sgn Sigmoid Sign Silu Sin Sinh Softplus Softshrink Sqrt "
        "Square Sub Tan Tanh Threshold ToCopy Where Xlogy",
        *(0, 1, 2, 3),
    )
)
"""Elementwise operations: every number stays where it is."""

SHAPES = frozenset(
    node_names(
        "Alias AsStrided Cat ChannelShuffle Col2Im ConstantPadNd Diagonal Expand Flip Glu Im2Col Permute "
        "PixelShuffle PixelUnshuffle ReflectionPad1D ReflectionPad2D ReflectionPad3D Repeat "
        "ReplicationPad1D ReplicationPad2D ReplicationPad3D ReshapeAlias Roll Select Slice Split "
        "SplitWithSizes Squeeze Stack T Transpose Tril Triu Unbind Unfold UnsafeSplit UnsafeView "
        "Unsqueeze View ViewAsComplex ViewAsReal",
        *(0, 1, 2),
    )
)
"""The same numbers in another shape. Axes, sizes and positions are integers that the node saves."""

INSIDE = frozenset(
    node_names(
        "AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D AvgPool2D AvgPool3D "
        "Convolution FftC2C FftC2R FftR2C FusedRmsNorm GridSampler2D GridSampler3D MaxPool2DWithIndices "
        "MaxPool3DWithIndices MkldnnAdaptiveAvgPool2D NativeBatchNorm NativeGroupNorm NativeLayerNorm "
        "UpsampleBicubic2D UpsampleBilinear2D UpsampleBilinear2DAa UpsampleLinear1D UpsampleNearest1D "
        "UpsampleNearest2D UpsampleNearest3D UpsampleTrilinear3D",
        0,
    )
    + node_names(
        "BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss KlDiv MseLoss NllLoss NllLoss2D "
        "SmoothL1Loss SoftMarginLoss",
        0,
    )
    + ["torch::autograd::AccumulateGrad", "torch::autograd::CopyBackwards"]
)
"""Operations within an example, along its last axes; losses with one number per row; and leaves."""
