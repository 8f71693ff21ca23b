"""TensorFlow 1's words over static graphs: placeholders, variables, sessions.

    import prototorch.compat.tf1 as tf

    x = tf.placeholder(tf.float32, shape=(None, 4))
    w = tf.Variable(tf.random_normal((4, 2)))
    y = tf.matmul(x, w)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        print(sess.run(y, feed_dict={x: np.ones((3, 4))}))

A run is a `prototorch.Graph`, made once for each combination of fetches. A name that is not here is an AttributeError
with this package's own for it. One session at a time has the values of the variables.
"""

from typing import Any

from prototorch.base.public_names import PublicNames
from prototorch.base.tensorflow_words import TENSORFLOW_WORDS

_NAMES = PublicNames(
    __name__,
    {
        "functions": """
            abs add argmax assign cast concat constant device divide equal exp float16 float32 float64 gradients int32
            int64 log matmul maximum minimum multiply negative ones pow random_normal random_uniform reduce_max
            reduce_mean reduce_min reduce_sum reshape set_random_seed sigmoid sqrt square subtract tanh
            truncated_normal uint8 where zeros
        """,
        "session": """
            Session Variable global_variables global_variables_initializer group placeholder reset_default_graph
            trainable_variables variables_initializer
        """,
        "training": """
            constant_initializer contrib glorot_normal_initializer glorot_uniform_initializer layers losses nn
            ones_initializer random_normal_initializer random_uniform_initializer train truncated_normal_initializer
            variance_scaling_initializer zeros_initializer
        """,
    },
    TENSORFLOW_WORDS,
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
