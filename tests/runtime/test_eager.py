"""PyTorch's way to run a graph."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.runtime.eager import eager_call, followed_by


def test_a_graph_is_called_with_one_list_that_it_empties() -> None:
    call = eager_call(make_fx(lambda x, y: (x + y, x))(torch.ones(2), torch.ones(2)))
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    args = [x, y]
    total, same = call(args)
    assert total.tolist() == [4, 6] and same is x
    assert args == [], "the caller gave its arguments up"


def test_no_graph_is_recorded() -> None:
    call = eager_call(make_fx(lambda x: (x * 2,))(torch.ones(2)))
    (result,) = call([torch.ones(2, requires_grad=True)])
    assert not result.requires_grad


def test_a_view_of_other_strides_than_traced() -> None:
    call = eager_call(make_fx(lambda x: (x.view(6),))(torch.ones(2, 3)))
    x = torch.arange(6.0).reshape(3, 2).t()
    assert torch.equal(call([x])[0], x.reshape(6))
    assert torch.equal(call([x])[0], x.reshape(6))


def test_an_action_follows_each_run() -> None:
    events: list[str] = []

    def run(args: list[object]) -> list[object]:
        events.append("run")
        return ["result"]

    call = followed_by(run, lambda: events.append("after"))
    assert call([]) == ["result"] == call([])
    assert events == ["run", "after", "run", "after"]
