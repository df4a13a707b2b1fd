"""From PyTorch's graphs to programs: the only folder that knows FX, Dynamo and AOTAutograd."""
