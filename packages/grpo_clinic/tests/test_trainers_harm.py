"""Trainers' configurations that mean harm or are broken: nothing is executed, and one line says what is wrong."""

import contextlib
import pickle

import pytest
from grpo_clinic.readers import limits
from grpo_clinic.trainers import configuration, recipe_of
from written_configs import understood


def test_nothing_is_executed(tmp_path):
    mark = tmp_path / "mark"
    with contextlib.suppress(ValueError):
        understood(tmp_path, f"num_generations: !!python/object/apply:os.system ['touch {mark}']\n")
    assert not mark.exists()


class Harm:
    def __reduce__(self):
        return (print, ("unpickled",))


def test_pickles_are_refused(tmp_path, capsys):
    for name, content in (
        ("training_args.bin", b"PK\x03\x04rest"),
        ("a.pkl", pickle.dumps(Harm())),
        ("b.bin", b"PK\x03\x04"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="never opened because it can run code"):
            recipe_of(str(tmp_path / name))
    assert "unpickled" not in capsys.readouterr().out


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} {{" + ", ".join(f"k{j}: *a{i - 1}" for j in range(9)) + "}\n" for i in range(1, 12)
)
MERGE = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i}\n  <<: *a{i - 1}\n  k{i}: *a{i - 1}\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (BOMB, "at most"),
        (MERGE, "at most"),
        ("[" * 100_000, "nested too deeply|broken"),
        ("{a: " * 5_000, "nested too deeply|broken"),
        ("a: &a [*a]\n", "broken|keys and values|none"),
        ("a: [1, 2\nb: 3\n", "broken document"),
        ("a: b: c\n", "broken document"),
        ("- 1\n- 2\n", "keys and values at the top"),
        ("", "empty file"),
        ("\0\0\0", "binary"),
        ("n: " + "9" * 300_000, "at most 256000 bytes"),
        ("some_key: 1\n", "none that is known"),
        ("num_generations: lots\n", "num_generations: expected a number >= 1, got 'lots'"),
        ("num_generations: 0\n", "num_generations: expected a number >= 1, got 0"),
        ("num_generations: 8\nnum_iterations: -1\n", "num_iterations: expected a number >= 1, got -1"),
        ("num_generations: 8\nscale_rewards: maybe\n", "scale_rewards: expected group"),
    ],
)
def test_one_line_for_every_bad_file(tmp_path, content, expected):
    with pytest.raises(ValueError, match=expected) as caught:
        understood(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_aliases_of_nothing_are_counted(tmp_path):
    """Eight levels of nine aliases that end in an empty mapping hold no value, and 9^8 mappings to walk through."""
    lines = ["a0: &a0 {x: {}}"]
    lines += [f"a{i}: &a{i} {{" + ", ".join(f"k{j}: *a{i - 1}" for j in range(9)) + "}" for i in range(1, 9)]
    with pytest.raises(ValueError, match="values, got more"):
        understood(tmp_path, "\n".join(lines))


def test_the_bombs_are_bombs():
    """Planted: without the bound on the number of values the alias bomb has billions of them."""
    assert 1e6 * limits.MAX_SETTINGS < 9**11
    deep: dict = {}
    for _ in range(60):
        deep = {"a": deep, "b": 1}
    with pytest.raises(ValueError, match="levels"):
        configuration.flat(deep)
