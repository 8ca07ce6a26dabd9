"""The networks of `torch_gpu.py` in PyTorch, layer by layer those that forebay trains on GPUs."""
import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """A block of ResNet-50: 1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions beside a shortcut."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


class TransformerBlock(nn.Module):
    """A block of a transformer with the norms first. Unfused attention keeps all scores in memory."""

    def __init__(self, length, width, heads, fused_attention):
        super().__init__()
        self.heads, self.fused_attention = heads, fused_attention
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.register_buffer("causal_mask", torch.ones(length, length).triu(1).bool())

    def attention(self, q, k, v):
        if self.fused_attention:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return scores.masked_fill(self.causal_mask, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        parts = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        x = x + self.projection(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):
    """A language model over bytes with the layers of GPT-2."""

    def __init__(self, vocabulary, length, width, heads, blocks, fused_attention):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(
            TransformerBlock(length, width, heads, fused_attention) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x):
        x = self.token(x) + self.position.weight
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def lenet5(options):
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
        nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(inplace=True),
        nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10))


def resnet50(options):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 4 * (64 << stage)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))
    return network.to(memory_format=torch.channels_last) if options.channels_last else network


def gpt_small(options):
    return LanguageModel(256, 1024, 768, 12, 12, options.fused_attention)


def images(channels, side, classes):
    return lambda batch: (torch.randn(batch, channels, side, side), torch.randint(classes, (batch,)))


def text(batch):
    return torch.randint(256, (batch, 1024)), torch.randint(256, (batch * 1024,))


MODELS = {
    "lenet5": (lenet5, images(1, 28, 10)),
    "resnet50": (resnet50, images(3, 224, 1000)),
    "gpt-small": (gpt_small, text),
}
