"""`session_step`: memory in slots of the server, for those who ask for it.

Nothing big travels, but the server keeps state: one process serves a session,
a restart forgets it, and nothing is thrown out when slots run short. Clients
that carry their memory (`step`) have none of these limits. (TensorFlow only.)

Axes: B rows, T segment, V vocabulary, L layers, M memory slots, D hidden width.
"""

from keras_txl.export.graph_checks import checked
from keras_txl.export.graph_checks import same_rows
from keras_txl.export.graph_checks import within
from keras_txl.export.signatures import SEGMENT
from keras_txl.export.signatures import Shapes
from keras_txl.export.signatures import StreamSignatures
from keras_txl.export.signatures import Tensors

SESSION: Shapes = {
    **SEGMENT,
    "session": ((None,), "int32"),
    "reset": ((None,), "int32"),
}


class SessionSignature:
    """Steps whose memory is found by the number of a session.

    Args:
        stream: the signatures with memory as a value.
        num_sessions: int. Sessions that the server keeps at once.
    """

    def __init__(self, stream: StreamSignatures, num_sessions: int) -> None:
        import tensorflow as tf

        self.stream = stream
        self.num_sessions = num_sessions
        self.slots = {}
        for name, (shape, dtype) in stream.memory_shapes.items():
            zeros = tf.zeros([num_sessions, *shape[1:]], dtype)
            self.slots[name] = tf.Variable(zeros, trainable=False, name=name)

    def __call__(self, request: Tensors) -> Tensors:
        """Logits of a segment; the memory of each session advances."""
        import tensorflow as tf

        request = checked(request, same_rows(request))
        sessions = request["session"]
        unique, _ = tf.unique(sessions)
        request = checked(
            request,
            [
                within("session", sessions, 0, self.num_sessions - 1),
                within("reset", request["reset"], 0, 1),
                (
                    tf.size(unique) == tf.size(sessions),
                    "`session` must hold each session once a call: one segment "
                    "comes after the other. Received:",
                    sessions,
                ),
            ],
        )
        sessions, reset = request.pop("session"), request.pop("reset")
        memory = {
            name: tf.gather(slots, sessions)
            for name, slots in self.slots.items()
        }
        length = memory["memory_length"]
        memory["memory_length"] = tf.where(reset == 1, 0, length)
        outputs = self.stream.step({**request, **memory})
        updates = [
            slots.scatter_nd_update(sessions[:, None], outputs[f"new_{name}"])
            for name, slots in self.slots.items()
            if slots.shape.num_elements()  # without memory there is none
        ]
        with tf.control_dependencies(updates):
            return {"logits": tf.identity(outputs["logits"])}
