"""What a command returns: a labelled `Document` of values, tables and pictures, and its writers, each once.

`value` is a number that may be absent, `blocks` are lines, tables and pictures, `document` holds them. Writers:
`as_json` the strict JSON of `summary.json`, `as_text` the terminal, `as_page` HTML. `app.runner` fills the run folder.

For developers. A new column of a table is one `Column`; `on` says where it appears, by default everywhere. A number
that there may not be is a `Value` with the reason. Text from outside needs no care: every writer shows it as it stands.
"""

from bandit_lab.app.document.blocks import ABSENT, Block, Column, Contents, Figure, On, Paragraph, Table, Values
from bandit_lab.app.document.document import Document
from bandit_lab.app.document.value import Value
