"""Pages that commands on logs write: `page` is the form (HTML, Markdown), `findings` the words for a diagnosis."""
