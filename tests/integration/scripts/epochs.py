"""Two passes over a plain loader, each followed by an evaluation that takes no step."""

import os

import torch
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

import xla_insight as xi

torch.manual_seed(0)
device = torch_xla.device()
net = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
training = DataLoader(TensorDataset(torch.randn(12, 8)), batch_size=4)
held_out = DataLoader(TensorDataset(torch.randn(8, 8)), batch_size=4)
with xi.profile(os.environ["EPOCHS_OUT"]) as prof:
    for _ in range(2):
        for (rows,) in training:
            optimizer.zero_grad()
            net(rows.to(device)).pow(2).mean().backward()
            optimizer.step()
            torch_xla.sync()
            prof.step()
        with torch.no_grad():
            for (rows,) in held_out:
                net(rows.to(device)).pow(2).mean()
                torch_xla.sync()
