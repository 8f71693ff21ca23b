"""Arguments of Keras' layers that have no meaning here: the values that change nothing, and what else to do."""

from prototorch.schema.neutral_arguments import neutral

_SEED = "compile(seed=) decides all random numbers, each layer draws its own"
_NOT_AVAILABLE = "it is not available; leave it out"

LAYER_ARGUMENTS = {
    "data_format": neutral(None, "channels_last", hint="the layer keeps the order of the axes; a Permute changes it"),
    "dtype": neutral(None, "float32", hint="values are float32; compile(precision=) chooses the arithmetic of a GPU"),
    "autocast": neutral(True, hint="compile(precision=) chooses the arithmetic"),
    "seed": neutral(None, hint=_SEED),
    "activity_regularizer": neutral(None, hint="put a layer ActivityRegularization(l1=, l2=) behind it"),
    "stateful": neutral(False, hint="states are outputs: return_state=True gives them, and the next call takes them"),
    "zero_output_for_mask": neutral(False, hint="a masked step repeats the output before it; a Multiply makes it 0"),
    "unroll": neutral(False, True, hint="a plan runs the steps in one kernel"),
    "use_cudnn": neutral("auto", True, False, None, hint="the backend chooses the kernel"),
    "flash_attention": neutral(None, True, False, hint="the backend chooses the kernel"),
    "synchronized": neutral(False, True, hint="there is one device"),
    "attention_axes": neutral(None, hint="attention is over the steps of [batch, steps, features]"),
    "sliding_window": neutral(None, hint=_NOT_AVAILABLE),
    "use_gate": neutral(False, hint=_NOT_AVAILABLE),
    "lora_rank": neutral(None, hint=_NOT_AVAILABLE),
    "lora_alpha": neutral(None, hint=_NOT_AVAILABLE),
    "quantization_config": neutral(None, hint=_NOT_AVAILABLE),
    "renorm": neutral(False, hint=_NOT_AVAILABLE),
    "renorm_clipping": neutral(None, hint=_NOT_AVAILABLE),
    "renorm_momentum": neutral(0.99, hint=_NOT_AVAILABLE),
    "noise_shape": neutral(None, hint="each element is drawn by itself; SpatialDropout2D drops whole channels"),
    "antialias": neutral(False, hint=_NOT_AVAILABLE),
    "fill_mode": neutral("constant", hint="the border has fill_value"),
}
