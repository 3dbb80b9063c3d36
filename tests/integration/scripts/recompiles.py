"""Loops that recompile, each for one reason and in a function of its own. Comments name the cause at its line."""

import random

import torch
import torch_xla

torch.manual_seed(0)
random.seed(0)
device = torch_xla.device()
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
torch_xla.sync()


def update(loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def sliced() -> None:
    for step in range(4):
        hidden = net(torch.randn(8, 16).to(device))
        update(hidden[:, step : step + 2].pow(2).mean())  # baked_value
        torch_xla.sync()


def selected() -> None:
    for step in range(4):
        hidden = net(torch.randn(8, 16).to(device))
        keep = (torch.arange(8) < 2 * step + 1).to(device)
        update(hidden[keep].pow(2).mean())  # data_dependent_shape
        torch_xla.sync()


def grown() -> None:
    sequence = torch.zeros(2, 1, 16).to(device)
    torch_xla.sync()
    for _ in range(4):
        sequence = torch.cat([sequence, sequence[:, -1:].tanh()], dim=1)  # python_shape
        torch_xla.sync()


def piled_up() -> None:
    for _ in range(4):
        update(net(torch.randn(8, 16).to(device)).pow(2).mean())
        float(net(torch.ones(1, 16).to(device)).sum())  # graph_growth
    torch_xla.sync()


for run in (sliced, selected, grown, piled_up):
    run()
