"""Design spaces: what a space is, what its file may say, and how it is read."""

from baco.exploration.space.design_space import MAX_POINTS, Choice, DesignSpace
from baco.exploration.space.in_technology import in_technology
from baco.exploration.space.reading import SPACES_FOLDER, load_space, read_space, space_names, space_of

__all__ = [
    "MAX_POINTS",
    "SPACES_FOLDER",
    "Choice",
    "DesignSpace",
    "in_technology",
    "load_space",
    "read_space",
    "space_names",
    "space_of",
]
