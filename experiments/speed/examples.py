"""Speed of the examples of docs/extending.md and of the README's bandit, by `experiments/speed/variants.py`.

    python experiments/speed/examples.py [settings of that script, such as sizes=[A,C] reps=7]

Every example is registered as it stands there. The default is `quick=true 'sizes=[A,C]'`. A diagnostic has no step.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from experiments.speed.variants import main

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"```python\n(?P<code>.*?@register_(?!diagnostic)\w+\(\"(?P<name>\w+)\"\).*?)```", re.DOTALL)


def examples() -> dict[str, str]:
    """name -> source of every variant that an update uses, in the order of the pages."""
    pages = [(ROOT / place).read_text(encoding="utf-8") for place in ("docs/extending.md", "README.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n.*?```", page, re.DOTALL)]
    return {found["name"]: found["code"] for found in map(EXAMPLE.fullmatch, blocks) if found}


if __name__ == "__main__":
    settings = sys.argv[1:] or ["quick=true", "sizes=[A,C]"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
        sources = examples()
        for name, code in sources.items():
            Path(f"example_{name}.py").write_text(code, encoding="utf-8")
        chosen = ",".join(sources)
        plugins = f"[{','.join(f'example_{name}' for name in sources)}]"
        print(f"examples: {chosen}")
        sys.exit(main([f"only=[{chosen}]", f"plugins={plugins}", *settings]))
