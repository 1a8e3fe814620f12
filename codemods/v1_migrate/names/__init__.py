"""What each vLLM release calls its things, and what became of each V0 name."""
