"""What to use in the place of members of Keras' `Model` that a model here does not have."""

__all__ = ["KERAS_MEMBERS", "METHODS_WITHOUT_EFFECT"]

_STEP = (
    "a step is one plan; compile(train=[...]) has steps that alternate, each with losses and weights of its own; loops "
    "of your own call model.train_on_batch, or eager tensors (pt.tensor) and pt.grad"
)
_LOSS = "write a loss function, compile(loss=my_loss), or a layer that adds it (ActivityRegularization)"
_METRICS = "compile(metrics=[my_metric]) takes functions of target and output"
_TEXT = "model.to_text() is the model as text, which pt.load_model reads"
_WEIGHTS = "model.weights has all weights by name, model.get_weights() copies of them"
_RESET = "totals are reset at the beginning of each epoch and each evaluation"
_TORCH = "models are as in Keras; modules as in PyTorch are in pt.nn"

KERAS_MEMBERS = {
    **dict.fromkeys(("train_step", "test_step", "predict_step", "make_train_function", "train_function"), _STEP),
    **dict.fromkeys(("add_loss", "compute_loss", "losses"), _LOSS),
    **dict.fromkeys(("add_metric", "compute_metrics", "compiled_metrics"), _METRICS),
    **dict.fromkeys(("to_json", "to_yaml", "get_config", "from_config"), _TEXT),
    **dict.fromkeys(("trainable_weights", "non_trainable_weights", "variables", "trainable_variables"), _WEIGHTS),
    **dict.fromkeys(("reset_metrics", "reset_states", "get_metrics_result"), _RESET),
    "metrics": "model.metrics_names has the names, model.evaluate their values",
    **dict.fromkeys(("add", "pop"), "pt.Sequential() has it"),
    **dict.fromkeys(("call", "apply"), "model(x) and model.predict(x) give the outputs"),
    **dict.fromkeys(("state_dict", "load_state_dict", "parameters", "modules", "to", "train", "eval"), _TORCH),
    "export": "model.save(path) writes the model with its weights",
    "input_shape": "model.input_specs(1) are the specs of the inputs for one sample",
    "output_shape": "model.summary() shows all shapes",
    "quantize": "there is no quantization",
    "fit_generator": "model.fit takes generators",
    "evaluate_generator": "model.evaluate takes generators",
    "predict_generator": "model.predict takes generators",
}

_NET = (
    "a model is the net between its inputs and outputs: pt.Model(inputs, outputs), pt.Sequential([...]) or a text; "
    "a net that is a Python function is a pt.Module with forward, trained by a loop with pt.optim"
)

#: methods of Keras' and Lightning's models that nothing would call, see `schema.overrides`
METHODS_WITHOUT_EFFECT = {
    **dict.fromkeys(("call", "__call__", "forward", "build", "symbolic_call", "stateless_call"), _NET),
    **dict.fromkeys(
        (
            *("train_step", "test_step", "predict_step", "training_step", "validation_step", "configure_optimizers"),
            *("make_train_function", "make_test_function", "make_predict_function"),
            *("train_function", "test_function", "predict_function"),
        ),
        _STEP,
    ),
    **dict.fromkeys(("compute_loss", "add_loss", "losses", "compute_loss_and_updates"), _LOSS),
    **dict.fromkeys(("metrics", "compute_metrics", "add_metric", "get_metrics_result", "reset_metrics"), _METRICS),
    **dict.fromkeys(("get_config", "from_config", "to_json"), _TEXT),
    **dict.fromkeys(("compute_output_shape", "compute_output_spec"), "shapes follow from the layers"),
    "compute_mask": "masks follow from the layers",
}
