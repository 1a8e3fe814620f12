"""Views of a run: each module turns one `Report` into one form of output. None of them writes to the user's files."""
