"""Whole models of everyday kinds in PyTorch, small, with random weights that keep numbers as large as trained ones do, and their
ONNX files as PyTorch's exporter writes them."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F


def settled(model, *inputs):
    """The model with weights scaled, layer by layer, so that on these inputs results have a deviation of 1, as batch
    normalisation leaves them in trained ones."""

    def scale(module, _, result):
        result = result[0] if isinstance(result, tuple) else result
        if isinstance(module, (nn.Conv2d, nn.Conv1d, nn.ConvTranspose2d, nn.Linear)):
            module.weight.data /= result.std()
            return result / result.std()
        return None

    hooks = [one.register_forward_hook(scale) for one in model.modules() if not list(one.children())]
    for one in model.modules():
        if isinstance(one, (nn.Conv2d, nn.Conv1d, nn.ConvTranspose2d, nn.Linear)) and one.bias is not None:
            nn.init.zeros_(one.bias)
    with torch.no_grad():
        model.eval()(*inputs)
    for hook in hooks:
        hook.remove()
    return model


def exported(model, path, inputs, names, dynamic=None, opset=17):
    """The ONNX file, its inputs called `names`; `dynamic` dimensions as `torch.onnx.export` takes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            inputs,
            str(path),
            input_names=names,
            dynamic_axes=dynamic,
            opset_version=opset,
            dynamo=False,
        )
    return str(path)


# A detector


class Conv(nn.Module):
    def __init__(self, c, k, size=1, stride=1, groups=1, act=nn.SiLU):
        super().__init__()
        self.conv = nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False)
        self.bn, self.act = nn.BatchNorm2d(k), act()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class C2f(nn.Module):
    def __init__(self, c, k, shortcut):
        super().__init__()
        self.cv1, self.cv2, self.shortcut = Conv(c, k), Conv(k // 2 * 3, k), shortcut
        self.a, self.b = Conv(k // 2, k // 2, 3), Conv(k // 2, k // 2, 3)

    def forward(self, x):
        y = list(self.cv1(x).chunk(2, 1))
        z = self.b(self.a(y[-1]))
        y.append(y[-1] + z if self.shortcut else z)
        return self.cv2(torch.cat(y, 1))


class SPPF(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2, self.pool = Conv(c, c // 2), Conv(c * 2, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        y = [self.cv1(x)]
        y.extend(self.pool(y[-1]) for _ in range(3))
        return self.cv2(torch.cat(y, 1))


class Detector(nn.Module):
    """YOLOv8's layers, narrow: boxes by the distribution over 16 distances, anchors, strides, class scores."""

    BINS = 16

    def __init__(self, width=8, classes=6):
        super().__init__()
        w = [width * n for n in (1, 2, 4, 8, 16)]
        self.stem = nn.Sequential(Conv(3, w[0], 3, 2), Conv(w[0], w[1], 3, 2), C2f(w[1], w[1], True))
        self.p3 = nn.Sequential(Conv(w[1], w[2], 3, 2), C2f(w[2], w[2], True))
        self.p4 = nn.Sequential(Conv(w[2], w[3], 3, 2), C2f(w[3], w[3], True))
        self.p5 = nn.Sequential(Conv(w[3], w[4], 3, 2), C2f(w[4], w[4], True), SPPF(w[4]))
        self.up, self.n4, self.n3 = (
            nn.Upsample(None, 2),
            C2f(w[4] + w[3], w[3], False),
            C2f(w[3] + w[2], w[2], False),
        )
        self.d3, self.m4 = Conv(w[2], w[2], 3, 2), C2f(w[2] + w[3], w[3], False)
        self.d4, self.m5 = Conv(w[3], w[3], 3, 2), C2f(w[3] + w[4], w[4], False)
        heads, self.classes = (w[2], w[3], w[4]), classes
        self.box = nn.ModuleList(
            nn.Sequential(Conv(c, 4 * self.BINS, 3), nn.Conv2d(4 * self.BINS, 4 * self.BINS, 1))
            for c in heads
        )
        self.score = nn.ModuleList(
            nn.Sequential(Conv(c, w[2], 3), nn.Conv2d(w[2], classes, 1)) for c in heads
        )
        self.dfl = nn.Conv2d(self.BINS, 1, 1, bias=False)

    def forward(self, x):
        c3 = self.p3(self.stem(x))
        c4 = self.p4(c3)
        c5 = self.p5(c4)
        n4 = self.n4(torch.cat([self.up(c5), c4], 1))
        n3 = self.n3(torch.cat([self.up(n4), c3], 1))
        m4 = self.m4(torch.cat([self.d3(n3), n4], 1))
        m5 = self.m5(torch.cat([self.d4(m4), c5], 1))
        maps = [
            torch.cat([box(f), score(f)], 1)
            for box, score, f in zip(self.box, self.score, (n3, m4, m5), strict=True)
        ]
        anchors, strides = self.anchors(maps)
        whole = torch.cat([one.view(one.shape[0], 4 * self.BINS + self.classes, -1) for one in maps], 2)
        box, score = whole.split((4 * self.BINS, self.classes), 1)
        b, _, a = box.shape
        distance = self.dfl(box.view(b, 4, self.BINS, a).transpose(2, 1).softmax(1)).view(b, 4, a)
        first, second = distance.chunk(2, 1)
        low, high = anchors - first, anchors + second
        boxes = torch.cat([(low + high) / 2, high - low], 1) * strides
        return torch.cat([boxes, score.sigmoid()], 1)

    @staticmethod
    def anchors(maps):
        points, strides = [], []
        for one, stride in zip(maps, (8.0, 16.0, 32.0), strict=True):
            h, w = one.shape[2:]
            y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points.append(torch.stack([x, y], -1).view(-1, 2))
            strides.append(torch.full((int(h) * int(w), 1), stride))
        return torch.cat(points).T.unsqueeze(0), torch.cat(strides).T


def detector(size=160):
    torch.manual_seed(0)
    x = torch.rand(1, 3, size, size)
    model = settled(Detector(), x)
    model.dfl.weight.data = torch.arange(16.0).view(1, 16, 1, 1)
    return model, {"images": x}


# Texts in images


class SqueezeExcite(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    """MobileNetV3's block."""

    def __init__(self, c, inner, k, size, stride, act=nn.Hardswish):
        super().__init__()
        self.body = nn.Sequential(
            Conv(c, inner, act=act),
            Conv(inner, inner, size, stride, inner, act),
            SqueezeExcite(inner),
            Conv(inner, k, act=nn.Identity),
        )
        self.residual = c == k and stride in (1, (1, 1))

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class TextDetector(nn.Module):
    """A differentiable-binarisation head on a feature pyramid over MobileNetV3's blocks."""

    def __init__(self):
        super().__init__()
        act = nn.Hardswish
        self.s1 = nn.Sequential(Conv(3, 8, 3, 2, act=act), Inverted(8, 16, 16, 3, 2, nn.ReLU))
        self.s2 = nn.Sequential(Inverted(16, 32, 24, 5, 2), Inverted(24, 48, 24, 5, 1))
        self.s3 = nn.Sequential(Inverted(24, 48, 32, 5, 2))
        self.lateral = nn.ModuleList(nn.Conv2d(c, 16, 1, bias=False) for c in (16, 24, 32))
        self.smooth = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=1, bias=False) for _ in range(3))
        self.binarise = nn.Sequential(
            nn.Conv2d(24, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 8, 2, 2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 2, 2),
            nn.Sigmoid(),
        )

    def forward(self, x):
        c1 = self.s1(x)
        c2 = self.s2(c1)
        c3 = self.s3(c2)
        l1, l2, l3 = (f(c) for f, c in zip(self.lateral, (c1, c2, c3), strict=True))
        l2 = l2 + F.interpolate(l3, scale_factor=2.0, mode="nearest")
        l1 = l1 + F.interpolate(l2, scale_factor=2.0, mode="nearest")
        s1, s2, s3 = (f(c) for f, c in zip(self.smooth, (l1, l2, l3), strict=True))
        up = [s1, F.interpolate(s2, scale_factor=2.0), F.interpolate(s3, scale_factor=4.0)]
        return self.binarise(torch.cat(up, 1))


class Recogniser(nn.Module):
    """CRNN: convolutions, a bidirectional LSTM along the line, characters."""

    def __init__(self, characters=37):
        super().__init__()
        self.body = nn.Sequential(
            Conv(1, 16, 3, act=nn.ReLU), nn.MaxPool2d(2), Conv(16, 32, 3, act=nn.ReLU), nn.MaxPool2d(2),
            Conv(32, 32, 3, act=nn.ReLU), nn.MaxPool2d((2, 1), (2, 1)), Conv(32, 48, 3, act=nn.ReLU), nn.MaxPool2d((4, 1)),
        )  # fmt: skip
        self.lstm, self.fc = nn.LSTM(48, 24, bidirectional=True), nn.Linear(48, characters)

    def forward(self, x):
        line = self.body(x).squeeze(2).permute(2, 0, 1)
        return F.log_softmax(self.fc(self.lstm(line)[0]), 2)


class Mixer(nn.Module):
    """SVTR's block: attention over the image's patches, and a network of two layers."""

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(c, eps=1e-6), nn.LayerNorm(c, eps=1e-6)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.fc1, self.fc2 = nn.Linear(c, 2 * c), nn.Linear(2 * c, c)

    def forward(self, x):
        n, _, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(n, -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * (c // self.heads) ** -0.5, qkv[1], qkv[2]
        mixed = (q.matmul(k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(n, -1, c)
        x = x + self.proj(mixed)
        return x + self.fc2(F.silu(self.fc1(self.norm2(x))))


class AttentionRecogniser(nn.Module):
    """SVTR: patches of a line of text, blocks, mean over the height."""

    def __init__(self, characters=37, c=32):
        super().__init__()
        self.embed = nn.Sequential(
            Conv(3, c // 2, 3, 2, act=nn.Hardswish), Conv(c // 2, c, 3, 2, act=nn.Hardswish)
        )
        self.blocks = nn.Sequential(Mixer(c, 4), Mixer(c, 4))
        self.norm, self.fc = nn.LayerNorm(c, eps=1e-6), nn.Linear(c, characters)

    def forward(self, x):
        y = self.embed(x)
        n, c, h, w = y.shape
        y = self.norm(self.blocks(y.flatten(2).permute(0, 2, 1)))
        y = y.permute(0, 2, 1).reshape(n, c, h, w)
        return self.fc(y.mean(2).permute(0, 2, 1)).softmax(2)


class Direction(nn.Module):
    """Which way up a line of text is."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            Conv(3, 8, 3, 2, act=nn.Hardswish), Inverted(8, 16, 8, 3, (2, 1), nn.ReLU), Inverted(8, 24, 16, 5, (2, 1)),
            Inverted(16, 32, 16, 5, 1), Conv(16, 32, act=nn.Hardswish), nn.MaxPool2d(2, 2),
        )  # fmt: skip
        self.fc = nn.Linear(32, 2)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1)).softmax(1)


# Sounds


class Acoustic(nn.Module):
    """An LSTM whose state goes in and out, so that sound can come in pieces."""

    def __init__(self):
        super().__init__()
        self.inner, self.lstm, self.fc = (
            nn.Linear(20, 32),
            nn.LSTM(32, 32, 2, batch_first=True),
            nn.Linear(32, 30),
        )

    def forward(self, features, h, c):
        y, (h, c) = self.lstm(F.relu(self.inner(features)), (h, c))
        return F.log_softmax(self.fc(y), -1), h, c


class Keywords(nn.Module):
    """DS-CNN: depthwise-separable convolutions over 49 frames of 10 coefficients."""

    def __init__(self, c=24, words=12):
        super().__init__()
        layers = [nn.Conv2d(1, c, (10, 4), (2, 2), (5, 1), bias=False), nn.BatchNorm2d(c), nn.ReLU()]
        for _ in range(3):
            layers += [Conv(c, c, 3, groups=c, act=nn.ReLU), Conv(c, c, act=nn.ReLU)]
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(c, words)

    def forward(self, x):
        y = self.body(x)
        return self.fc(F.avg_pool2d(y, y.shape[2:]).flatten(1)).softmax(1)


class Keywords1d(nn.Module):
    """TC-ResNet: convolutions along time, coefficients as channels."""

    def __init__(self, words=12):
        super().__init__()
        self.first = nn.Conv1d(40, 16, 3, padding=1, bias=False)
        self.a, self.b = nn.Conv1d(16, 24, 9, 2, 4, bias=False), nn.Conv1d(24, 24, 9, 1, 4, bias=False)
        self.side, self.bn = nn.Conv1d(16, 24, 1, 2, bias=False), nn.BatchNorm1d(24)
        self.fc = nn.Linear(24, words)

    def forward(self, x):
        x = self.first(x)
        y = F.relu(self.bn(self.b(F.relu(self.a(x)))) + F.relu(self.side(x)))
        return self.fc(F.dropout(y.mean(2), 0.5, self.training))


# Texts


class RMSNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(c) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class DecoderLayer(nn.Module):
    """As LlamaForCausalLM spells it out: rotary embedding by halves, grouped queries, keys and values behind earlier ones."""

    def __init__(self, c, heads, groups):
        super().__init__()
        d = c // heads
        self.heads, self.groups, self.d = heads, groups, d
        self.q_proj, self.o_proj = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.k_proj, self.v_proj = nn.Linear(c, groups * d, bias=False), nn.Linear(c, groups * d, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(*n, bias=False) for n in ((c, 2 * c), (c, 2 * c), (2 * c, c))
        )
        self.norm1, self.norm2 = RMSNorm(c), RMSNorm(c)

    def split(self, x, heads):
        return x.view(x.shape[0], -1, heads, self.d).transpose(1, 2)

    @staticmethod
    def rotated(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x, cos, sin, mask, past_key, past_value):
        y = self.norm1(x)
        q, k = self.split(self.q_proj(y), self.heads), self.split(self.k_proj(y), self.groups)
        v = self.split(self.v_proj(y), self.groups)
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
        n, g, length, d = k.shape
        many = self.heads // g
        wide_k = k[:, :, None].expand(n, g, many, length, d).reshape(n, self.heads, length, d)
        wide_v = v[:, :, None].expand(n, g, many, length, d).reshape(n, self.heads, length, d)
        scores = (q @ wide_k.transpose(2, 3)) / d**0.5 + mask
        mixed = (scores.softmax(-1) @ wide_v).transpose(1, 2).reshape(n, -1, self.heads * d)
        x = x + self.o_proj(mixed)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """Token ids and a past in, scores of the next token and the longer past out."""

    def __init__(self, vocabulary=50, c=32, heads=4, groups=2, layers=2, base=10000.0):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocabulary, c), RMSNorm(c)
        self.layers = nn.ModuleList(DecoderLayer(c, heads, groups) for _ in range(layers))
        self.head = nn.Linear(c, vocabulary, bias=False)
        d = c // heads
        self.register_buffer("frequency", base ** (-torch.arange(0, d, 2) / d))

    def forward(self, input_ids, attention_mask, *past):
        earlier = past[0].shape[2]
        length = input_ids.shape[1]
        angle = torch.arange(earlier, earlier + length)[:, None] * self.frequency[None]
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos(), angle.sin()
        queries, keys = torch.arange(earlier, earlier + length), torch.arange(earlier + length)
        causal = torch.where(keys[None] > queries[:, None], -10000.0, 0.0)
        mask = causal + (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        x, kept = self.embed(input_ids), []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, mask, past[2 * i], past[2 * i + 1])
            kept += [k, v]
        return (self.head(self.norm(x)), *kept)


def decoder(past=6, length=4, **sizes):
    """A decoder with a past, and its inputs by name."""
    torch.manual_seed(3)
    model = Decoder(**sizes)
    inputs = {
        "input_ids": torch.randint(0, model.embed.num_embeddings, (1, length)),
        "attention_mask": torch.ones(1, past + length, dtype=torch.int64),
    }
    for i, layer in enumerate(model.layers):
        for name in ("key", "value"):
            inputs[f"past_key_values.{i}.{name}"] = torch.randn(1, layer.groups, past, layer.d)
    return settled(model, *inputs.values()), inputs


def operators_of_decoder(model, path, past, length, *, causal, opset=23):
    """The decoder as exporters write it with the operators of opset 23: RMSNormalization, RotaryEmbedding, and Attention that
    takes a past and gives a longer one; causal by the operator's attribute, or by a mask."""
    d, total = model.layers[0].d, past + length
    weights, nodes, outputs = {}, [], []

    def weight(name, tensor):
        weights[name] = tensor.detach().numpy().astype(np.float32)
        return name

    def node(op, *inputs, out=None, **attributes):
        out = out or [f"{op}.{len(nodes)}"]
        nodes.append(helper.make_node(op, list(inputs), out, name=out[0], **attributes))
        return out[0]

    def product(x, name, linear):
        return node("MatMul", x, weight(name, linear.weight.T))

    def shape(*extents):
        name = "shape." + "x".join(map(str, extents))
        weights[name] = np.array(extents)
        return name

    angle = torch.arange(total)[:, None] * model.frequency[None]
    cos, sin = weight("cos", angle.cos()), weight("sin", angle.sin())
    mask = ""
    if not causal:
        rows, columns = np.arange(past, total)[:, None], np.arange(total)
        weights["allowed"] = columns <= rows
        mask = "allowed"
    x = node("Gather", weight("embed", model.embed.weight), "input_ids")
    for i, layer in enumerate(model.layers):
        y = node("RMSNormalization", x, weight(f"{i}.norm1", layer.norm1.weight), epsilon=1e-6)
        heads = []
        for name, count in (("q", layer.heads), ("k", layer.groups), ("v", layer.groups)):
            z = product(y, f"{i}.{name}", getattr(layer, f"{name}_proj"))
            z = node("Transpose", node("Reshape", z, shape(1, length, count, d)), perm=[0, 2, 1, 3])
            heads.append(node("RotaryEmbedding", z, cos, sin, "position_ids") if name != "v" else z)
        present = [f"present.{i}.key", f"present.{i}.value"]
        outputs += present
        earlier = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        z = node("Attention", *heads, mask, *earlier, out=[f"attention.{i}", *present], is_causal=int(causal))
        z = node("Reshape", node("Transpose", z, perm=[0, 2, 1, 3]), shape(1, length, layer.heads * d))
        x = node("Add", x, product(z, f"{i}.o", layer.o_proj))
        y = node("RMSNormalization", x, weight(f"{i}.norm2", layer.norm2.weight), epsilon=1e-6)
        gate = product(y, f"{i}.gate", layer.gate)
        gate = node("Mul", gate, node("Sigmoid", gate))
        x = node(
            "Add", x, product(node("Mul", gate, product(y, f"{i}.up", layer.up)), f"{i}.down", layer.down)
        )
    y = node("RMSNormalization", x, weight("norm", model.norm.weight), epsilon=1e-6)
    product(y, "head", model.head)
    nodes[-1].output[0] = "logits"
    kinds = {"input_ids": TensorProto.INT64, "position_ids": TensorProto.INT64}
    inputs = {"input_ids": ["batch", length], "position_ids": ["batch", length]}
    for i, layer in enumerate(model.layers):
        for name in ("key", "value"):
            inputs[f"past_key_values.{i}.{name}"] = ["batch", layer.groups, past, d]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in ("logits", *outputs)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11), path)
    return str(path)
