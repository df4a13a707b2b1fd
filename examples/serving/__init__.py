"""A server for packages: `python -m examples.serving model.maxpkg --port 8000`.

One front process accepts requests, queues and batches them; worker processes compute. In the order
in which a request passes through the files:

    __main__    the command line
    settings    limits and sizes
    limits      the size of a body, before it is read
    app         HTTP: the routes
    protocol    JSON to arrays, and back
    batching    which requests are one call
    pool        hands calls to worker processes, and replaces a process that ended
    messages    what the front and a worker send each other
    worker      the process that has the package
    runner      one call of an entry for several requests
    entries     what an entry of a package takes
    generation  sequences that share a static cache
    metrics     what Prometheus reads

`model` is a model to try it with, `load_test` measures, `ray_serve` is the same package on Ray.
"""
