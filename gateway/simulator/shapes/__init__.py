"""The dialects of the simulator: one file a family of endpoints, all shaped like `base.Shape`."""
