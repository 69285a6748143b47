"""How few answers tell a model's accuracy? Populations of known truth, peers, and the study that compares them."""
