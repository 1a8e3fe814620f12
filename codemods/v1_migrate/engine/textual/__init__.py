"""Files that are not Python: what language each stretch of them is in, and edits that keep their layout."""
