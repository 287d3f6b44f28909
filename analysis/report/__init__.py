"""The files a run leaves behind: CSV, Markdown and JSON, written whole or not at all."""
