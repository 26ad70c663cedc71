"""How clients share one broker: its processor (turns), its memory (prices, budget) and its tables (quotas)."""
