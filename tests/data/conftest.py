"""Libraries of others are met where they are installed.

pip install datasets tensorflow-datasets grain
python -m pytest tests/data/test_other_libraries.py
"""

from importlib.util import find_spec

LIBRARIES = ("datasets", "tensorflow_datasets", "grain")

collect_ignore = (
    [] if all(map(find_spec, LIBRARIES)) else ["test_other_libraries.py"]
)
