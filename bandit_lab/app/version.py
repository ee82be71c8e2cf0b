"""The version of the package, where every room can read it without importing the package as a whole."""

__version__ = "0.1.0"
