"""Elementwise layers: AbsVal, BNLL, Clip, Dropout, ELU, Exp, Log, Power, ReLU, Sigmoid, Swish, TanH, Threshold."""

from __future__ import annotations

from math import exp, inf, isfinite, log, nan

from prototorch import layers
from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.numbers import field_number
from prototorch.caffe.text.message import Message
from prototorch.layers.base import Layer

_FIXED = {
    "AbsVal": layers.Abs,
    "BNLL": layers.Softplus,
    "Sigmoid": layers.Sigmoid,
    "TanH": layers.Tanh,
}


@translator(*_FIXED)
def _fixed(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    site.add(_FIXED[site.type]())


@translator("ReLU")
def _relu(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    site.add(layers.ReLU(negative_slope=field_number(site, site.layer["relu_param"]["negative_slope"])))


@translator("ELU")
def _elu(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    site.add(layers.ELU(alpha=field_number(site, site.layer["elu_param"]["alpha"])))


@translator("Swish")
def _swish(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    site.add(layers.SiLU(beta=field_number(site, site.layer["swish_param"]["beta"])))


@translator("Threshold")
def _threshold(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    site.add(layers.Binarize(threshold=field_number(site, site.layer["threshold_param"]["threshold"])))


@translator("Dropout")
def _dropout(site: CaffeLayerImport) -> None:
    site.check_counts(1, 1)
    param = site.layer["dropout_param"]
    rate = field_number(site, param["dropout_ratio"])
    if not 0 <= rate < 1:
        site.fail(f"dropout_ratio must be from 0 to below 1, not {rate:g}", param, "dropout_ratio")
    site.add(layers.Dropout(rate=rate))


@translator("Clip")
def _clip(site: CaffeLayerImport) -> None:
    """max(min, min(x, max)): with bounds in the wrong order a constant."""
    site.check_counts(1, 1)
    param = site.layer["clip_param"]
    low, high = (field_number(site, param[name]) for name in ("min", "max"))
    if low > high:
        site.add(layers.FullLike(value=low))
    else:
        site.add(layers.Clip(min=low, max=high))


def _add_chain(site: CaffeLayerImport, *steps: tuple[str, Layer | None]) -> None:
    """Add layers one after the other, those that are None left out; the last one is the layer's own node."""
    chain = [(suffix, layer) for suffix, layer in steps if layer is not None]
    value = site.bottoms[0]
    for i, (suffix, layer) in enumerate(chain):
        (value,) = site.add(layer, value, suffix="" if i == len(chain) - 1 else suffix)


def _affine(site: CaffeLayerImport, scale: float, shift: float = 0.0) -> Layer | None:
    """scale * x + shift, None for the identity."""
    if (scale, shift) == (1.0, 0.0):
        return None
    return layers.Rescaling(scale=field_number(site, scale), offset=field_number(site, shift))


def _log_of_base(site: CaffeLayerImport, param: Message) -> float:
    """The natural logarithm of the field ``base``, -1 being e."""
    base = param["base"]
    if base == -1:
        return 1.0
    if not (base > 0 and isfinite(base)):
        site.fail(f"base must be above 0, or -1 for e, not {base:g}", param, "base")
    return log(base)


@translator("Exp")
def _exp(site: CaffeLayerImport) -> None:
    """base ^ (shift + scale * x) = base^shift * exp(ln(base) * scale * x)."""
    site.check_counts(1, 1)
    param = site.layer["exp_param"]
    log_base = _log_of_base(site, param)
    factor = exp(min(log_base * param["shift"], 700.0))
    if not factor < 3.4e38:
        site.fail(f"base ^ shift is not finite: shift is {param['shift']:g}", param, "shift")
    _add_chain(
        site,
        ("exponent", _affine(site, log_base * param["scale"])),
        ("power", layers.Exponential()),
        ("scaled", _affine(site, factor)),
    )


@translator("Log")
def _log(site: CaffeLayerImport) -> None:
    """log(shift + scale * x) / ln(base)."""
    site.check_counts(1, 1)
    param = site.layer["log_param"]
    log_base = _log_of_base(site, param)
    if log_base == 0:
        site.fail("base must not be 1, of which the logarithm is 0", param, "base")
    _add_chain(
        site,
        ("argument", _affine(site, param["scale"], param["shift"])),
        ("logarithm", layers.Log()),
        ("scaled", _affine(site, 1 / log_base)),
    )


@translator("Power")
def _power(site: CaffeLayerImport) -> None:
    """(shift + scale * x) ^ power; a constant without gradient where scale * power is 0."""
    site.check_counts(1, 1)
    param = site.layer["power_param"]
    power, scale, shift = param["power"], param["scale"], param["shift"]
    if scale * power == 0:
        site.add(layers.FullLike(value=1.0 if power == 0 else _real_power(shift, power)))
        return
    exponent = None if power == 1 else layers.Power(exponent=field_number(site, power))
    base = _affine(site, scale, shift)
    _add_chain(site, ("base", base if base or exponent else layers.Linear()), ("power", exponent))


def _real_power(base: float, power: float) -> float:
    """base ^ power as C computes it: infinite for 0 to a negative power, NaN for a root of a negative number."""
    try:
        value = base**power
    except ZeroDivisionError:
        return inf
    except OverflowError:
        return -inf if base < 0 and power % 2 else inf
    return nan if isinstance(value, complex) else value
