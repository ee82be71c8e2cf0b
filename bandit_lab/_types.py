"""What an array is called in every room."""

import jax

Array = jax.Array
