"""What a person types and reads: arguments, help, errors in one line, progress, tables, Ctrl-C."""
