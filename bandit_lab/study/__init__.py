"""What a person runs: settings, commands, run folders, tables and pictures. The only room that touches the outside."""
