"""How many answers does it take to measure a model's accuracy? Populations with known truth, peers, and a study."""
