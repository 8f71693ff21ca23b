"""Training: what compile and fit declare, the step as one plan, the loop, callbacks.

The names that run a model are loaded when they are first used: a model that is opened, checked or shown needs none.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(
    __name__,
    {
        "adaptation": "adapt_layers",
        "builtin_callbacks": "History",
        "evaluation": "warn_of_nan_outputs",
        "evaluation_result": "EvaluationResult",
        "loss_terms": "apply_loss_weights by_output",
        "data_signature": "model_signature",
        "model_notes": "find_model_notes",
        "on_batch": "OnBatchRunner",
        "plan_cache": "PlanCache",
        "preprocessing": "Preprocessor",
        "profiler": "OPEN Profiler",
        "progress": "format_duration format_logs progress_callbacks",
        "summary": "summarize",
        "target_scaling": "target_scalings with_target_units",
        "trainer": "Trainer",
    },
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
