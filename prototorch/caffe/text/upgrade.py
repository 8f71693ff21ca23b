"""Older forms of Caffe's nets and solvers in the newest one, as Caffe itself reads them: message to message.

Source: ``src/caffe/util/upgrade_proto.cpp`` of BVLC/caffe at 9b89154.
"""

from __future__ import annotations

from prototorch.caffe.text.message import Message
from prototorch.caffe.text.upgrade_inputs import upgrade_batch_norms, upgrade_inputs
from prototorch.caffe.text.upgrade_solver import upgrade_solver
from prototorch.caffe.text.upgrade_v0 import upgrade_v0_net
from prototorch.caffe.text.upgrade_v1 import upgrade_data_transforms, upgrade_v1_net

__all__ = ["upgrade_net", "upgrade_solver"]


def upgrade_net(net: Message) -> Message:
    """A NetParameter of any version, from a text or a binary file, in the newest form: ``layer`` fields only.

    V0 layers become V1 layers, these V2 layers, net inputs an Input layer; the parameters of BatchNorm are not
    learned. The message itself is not changed. Raises TextError for a net that has no newest form.
    """
    net = net.copy()
    for step in (upgrade_v0_net, upgrade_data_transforms, upgrade_v1_net, upgrade_inputs, upgrade_batch_norms):
        net = step(net)
    return net
