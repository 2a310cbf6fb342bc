"""Reference models on torch.nn, written from the papers; each function returns (module, example inputs)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def conv_bn(c, k, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(c, k, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(k)
    )


class Block(nn.Module):
    def __init__(self, c, width, stride, wide):
        super().__init__()
        out = 4 * width if wide else width
        if wide:
            parts = [
                conv_bn(c, width, 1),
                nn.ReLU(),
                conv_bn(width, width, 3, stride),
                nn.ReLU(),
                conv_bn(width, out, 1),
            ]
        else:
            parts = [conv_bn(c, width, 3, stride), nn.ReLU(), conv_bn(width, width, 3)]
        self.body = nn.Sequential(*parts)
        self.short = conv_bn(c, out, 1, stride) if stride > 1 or c != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet(depths, wide):
    layers = [conv_bn(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for stage, depth in enumerate(depths):
        for i in range(depth):
            width = 64 * 2**stage
            layers.append(Block(c, width, 2 if stage and i == 0 else 1, wide))
            c = 4 * width if wide else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


def image(size=224, channels=3, batch=1):
    return torch.zeros(batch, channels, size, size, device="meta")


def resnet18():
    with torch.device("meta"):
        return resnet((2, 2, 2, 2), False), image()


def resnet50():
    with torch.device("meta"):
        return resnet((3, 4, 6, 3), True), image()


class Inverted(nn.Module):
    def __init__(self, c, k, stride, t):
        super().__init__()
        h = c * t
        grow = [conv_bn(c, h, 1), nn.ReLU6()] if t > 1 else []
        self.body = nn.Sequential(*grow, conv_bn(h, h, 3, stride, h), nn.ReLU6(), conv_bn(h, k, 1))
        self.skip = stride == 1 and c == k

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2():
    with torch.device("meta"):
        layers, c = [conv_bn(3, 32, 3, 2), nn.ReLU6()], 32
        for t, k, n, s in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]:
            for i in range(n):
                layers.append(Inverted(c, k, s if i == 0 else 1, t))
                c = k
        layers += [
            conv_bn(320, 1280, 1),
            nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(1280, 1000),
        ]
        return nn.Sequential(*layers), image()


class Attention(nn.Module):
    """Written out with matmul, one projection per operand."""

    def __init__(self, d, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.heads = heads

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (f(x).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        p = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        return self.o((p @ v).transpose(1, 2).reshape(b, s, d))


class BertLayer(nn.Module):
    def __init__(self, d=768, heads=12, h=3072):
        super().__init__()
        self.att, self.n1, self.n2 = Attention(d, heads), nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, h), nn.Linear(h, d)

    def forward(self, x):
        x = self.n1(x + self.att(x))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions, self.types = (
            nn.Embedding(30522, 768),
            nn.Embedding(512, 768),
            nn.Embedding(2, 768),
        )
        self.norm, self.layers, self.pool = (
            nn.LayerNorm(768),
            nn.Sequential(*(BertLayer() for _ in range(12))),
            nn.Linear(768, 768),
        )

    def forward(self, tokens, types):
        x = (
            self.words(tokens)
            + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
            + self.types(types)
        )
        return torch.tanh(self.pool(self.layers(self.norm(x))[:, 0]))


def bert_base():
    with torch.device("meta"):
        tokens = torch.zeros(1, 128, dtype=torch.long)
        return Bert(), (tokens, tokens)


class Vit(nn.Module):
    """With torch's own encoder layer, hence scaled_dot_product_attention."""

    def __init__(self, d=768, heads=12, layers=12, tokens=197):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 16, 16)
        self.token, self.position = (
            nn.Parameter(torch.zeros(1, 1, d)),
            nn.Parameter(torch.zeros(1, tokens, d)),
        )
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, heads, 4 * d, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def vit_b16():
    with torch.device("meta"):
        return Vit(), image()


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [64, 128, 256, 512]
        self.down = nn.ModuleList(
            self.double(c, k) for c, k in zip([1, *widths], [*widths, 1024], strict=False)
        )
        self.upconv = nn.ModuleList(nn.Conv2d(2 * k, k, 2) for k in reversed(widths))
        self.up = nn.ModuleList(self.double(2 * k, k) for k in reversed(widths))
        self.last = nn.Conv2d(64, 2, 1)

    @staticmethod
    def double(c, k):
        return nn.Sequential(nn.Conv2d(c, k, 3), nn.ReLU(), nn.Conv2d(k, k, 3), nn.ReLU())

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < 4:
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for upconv, block in zip(self.upconv, self.up, strict=True):
            x = upconv(F.pad(F.interpolate(x, scale_factor=2), (0, 1, 0, 1)))
            skip = skips.pop()
            cut = (skip.shape[-1] - x.shape[-1]) // 2
            x = block(torch.cat([skip[..., cut : cut + x.shape[-2], cut : cut + x.shape[-1]], x], 1))
        return self.last(x)


def unet():
    with torch.device("meta"):
        return Unet(), image(572, 1)


class LlamaLayer(nn.Module):
    def __init__(self, d, heads, h):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (
            nn.Linear(d, h, bias=False),
            nn.Linear(d, h, bias=False),
            nn.Linear(h, d, bias=False),
        )
        self.n1, self.n2, self.heads = nn.RMSNorm(d), nn.RMSNorm(d), heads

    def forward(self, x, past):
        b, s, d = x.shape
        y = self.n1(x)
        q, k, v = (f(y).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past is not None:
            k, v = torch.cat([past, k], 2), torch.cat([past, v], 2)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, d))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Two of the 32 layers, tokens already embedded."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(LlamaLayer(4096, 32, 11008) for _ in range(2))

    def forward(self, x, past=None):
        for layer in self.layers:
            x = layer(x, past)
        return x


def llama_prefill():
    with torch.device("meta"):
        return Llama(), torch.zeros(2, 64, 4096)


def llama_decode():
    with torch.device("meta"):
        return Llama(), {"x": torch.zeros(2, 1, 4096), "past": torch.zeros(2, 32, 63, 128)}


class Zoo(nn.Module):
    """Every kind of convolution and matrix product, on the CPU with random weights."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(8, 16, 3, padding=1, groups=4)
        self.dilated = nn.Conv2d(16, 8, (3, 5), dilation=(2, 1), padding="same")
        self.up = nn.ConvTranspose2d(8, 4, 4, 2, 1)
        self.line = nn.Conv1d(4, 6, 5, stride=3, dilation=2)
        self.upline = nn.ConvTranspose1d(6, 6, 3, 3, groups=2)
        self.weight = nn.Parameter(torch.randn(7, 5))
        self.shared = nn.Linear(10, 10)

    def forward(self, x, vector):
        y = self.up(self.dilated(self.grouped(x)))
        z = self.upline(self.line(y.flatten(2)))
        a = torch.einsum("bij,bkj->bik", z, z)
        b = torch.addmm(self.weight[0], vector @ self.weight.new_zeros(10, 7), self.weight)
        return a, b, self.shared(self.shared(vector)), torch.bmm(a, z)


def zoo():
    return Zoo(), (torch.randn(2, 8, 12, 10), torch.randn(1, 10))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(24, 16, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def recurrent():
    return Recurrent(), torch.randn(2, 5, 24)


class Odd(nn.Module):
    """An operator without a cost between two with one, and a region without gradients."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(6, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
        return self.b(torch.cdist(y, y))


def odd():
    return Odd(), torch.randn(6, 8)
