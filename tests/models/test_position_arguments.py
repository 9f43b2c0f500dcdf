"""Arguments of `position` that belong together."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"position": "rotary"}, "must be one of 'relative_sinusoidal'"),
        ({"position": "relative_learned"}, "for example the segment and"),
        ({"max_distance": 9}, "max_distance=9. Leave it out"),
        ({"relative_values": True}, "needs position='relative_clipped'"),
        (
            {"position": "none", "clamp_length": 4},
            "`clamp_length` has no effect",
        ),
    ],
)
def test_arguments_without_a_use_are_refused(make_lm, arguments, told):
    with pytest.raises(ValueError, match=told):
        make_lm(**arguments)
