"""From a file's text to findings and edits: parse, scopes, references, verdicts, surgery, verification."""
