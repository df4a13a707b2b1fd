"""From lowered graphs to compiled models: the queue, MAX's compiler, the artifact store."""
