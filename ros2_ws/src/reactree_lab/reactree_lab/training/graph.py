"""The graph of a model of the Llama architecture for onnxruntime; its weights stay in their file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from reactree_lab.out_folder import write_whole
from reactree_local.small import COSINES, GRAPH, HIDDEN, PAST, READ, SCORES, SINES, TOKENS, WEIGHTS
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE, parse_json, text_of

#: Versions of the operators (with RMSNormalization) and of the format.
_OPSET, _IR = 23, 11
_TYPES = {"F16": TensorProto.FLOAT16, "F32": TensorProto.FLOAT, "BF16": TensorProto.BFLOAT16}


def write_graph(folder: Path) -> None:
    try:
        config = dict(parse_json(text_of(folder / "config.json")))
        weights = _weights(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise UserError(f"{folder}: holds no model: {error}") from error
    _check(folder, config)
    model = _Graph(config, weights).model()
    write_whole(folder / GRAPH, model.SerializeToString())


def _check(folder: Path, config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    wanted = {
        "model_type": (config.get("model_type"), "llama"),
        "hidden_act": (config.get("hidden_act", "silu"), "silu"),
        "attention_bias": (config.get("attention_bias", False), False),
        "mlp_bias": (config.get("mlp_bias", False), False),
        "rope_type": (rope.get("rope_type", "default"), "default"),
    }
    for name, (there, known) in wanted.items():
        if there != known:
            raise UserError(
                f"{folder}: {name} is {there!r}, and `llm: small` runs {known!r} only; "
                "run it with --llm transformers or --llm vllm"
            )


def _weights(path: Path) -> dict[str, TensorProto]:
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = parse_json(file.read(min(size, LONGEST_LINE)))
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in _TYPES:
            raise ValueError(f"{name} is of type {about['dtype']}")
        begin, end = about["data_offsets"]
        tensor = TensorProto(name=name, data_type=_TYPES[about["dtype"]], dims=about["shape"])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": path.name, "offset": 8 + size + begin, "length": end - begin}.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors[name] = tensor
    return tensors


class _Graph:
    def __init__(self, config: dict[str, Any], weights: dict[str, TensorProto]) -> None:
        self._config, self._weights = config, weights
        self._layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
        self._keys = config.get("num_key_value_heads") or heads
        self._groups = heads // self._keys
        self._size = config.get("head_dim") or config["hidden_size"] // heads
        self._nodes: list[Any] = []
        self._initializers: list[TensorProto] = []
        self._known: dict[str, str] = {}

    def model(self) -> Any:
        """Return the model: it reads tokens, and returns the next token's scores and all keys and values."""
        x = self._do("Gather", self._weight("model.embed_tokens.weight"), TOKENS)
        for layer in range(self._layers):
            name = f"model.layers.{layer}."
            x = self._do("Add", x, self._attend(self._normed(x, f"{name}input_layernorm"), f"{name}self_attn.", layer))
            x = self._do("Add", x, self._inner(self._normed(x, f"{name}post_attention_layernorm"), f"{name}mlp."))
        last = self._do("Gather", self._normed(x, "model.norm"), self._constant(np.array(-1)), axis=0)
        head = "lm_head.weight" if "lm_head.weight" in self._weights else "model.embed_tokens.weight"
        self._do("MatMul", self._weight(head), last, out=SCORES)
        graph = helper.make_graph(self._nodes, "small", self._inputs(), self._outputs(), self._initializers)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR, producer_name="reactree_ros")
        helper.set_model_props(model, self._about())
        return model

    def _about(self) -> dict[str, str]:
        config = self._config
        end = config.get("eos_token_id")
        rope = config.get("rope_parameters") or {}
        about = {
            "context": config["max_position_embeddings"],
            "end": end[0] if isinstance(end, list) else end or 0,
            "vocabulary": config["vocab_size"],
            "layers": self._layers,
            "heads": self._keys,
            "size": self._size,
            "rotary_base": rope.get("rope_theta") or config.get("rope_theta", 10000.0),
        }
        return {name: str(value) for name, value in about.items()}

    def _inputs(self) -> list[Any]:
        number, past = TensorProto.FLOAT, [self._keys, "before", self._size]
        return [
            helper.make_tensor_value_info(TOKENS, TensorProto.INT64, ["count"]),
            helper.make_tensor_value_info(COSINES, number, ["count", self._size]),
            helper.make_tensor_value_info(SINES, number, ["count", self._size]),
            helper.make_tensor_value_info(HIDDEN, number, ["count", "all"]),
            *(helper.make_tensor_value_info(f"{PAST}{one}", number, past) for one in range(2 * self._layers)),
        ]

    def _outputs(self) -> list[Any]:
        number, read = TensorProto.FLOAT, [self._keys, "all", self._size]
        return [
            helper.make_tensor_value_info(SCORES, number, [self._config["vocab_size"]]),
            *(helper.make_tensor_value_info(f"{READ}{one}", number, read) for one in range(2 * self._layers)),
        ]

    def _attend(self, x: str, name: str, layer: int) -> str:
        """Attend to all tokens so far; the keys and values are outputs."""
        query = self._turned(self._heads(x, f"{name}q_proj", self._keys * self._groups))
        keys = self._do(
            "Concat",
            f"{PAST}{2 * layer}",
            self._turned(self._heads(x, f"{name}k_proj", self._keys)),
            out=f"{READ}{2 * layer}",
            axis=1,
        )
        values = self._do(
            "Concat",
            f"{PAST}{2 * layer + 1}",
            self._heads(x, f"{name}v_proj", self._keys),
            out=f"{READ}{2 * layer + 1}",
            axis=1,
        )
        # one more dimension: the heads that share keys and values
        query = self._shaped(query, [self._keys, self._groups, -1, self._size])
        one = self._constant(np.array([1]))
        turned = self._do("Transpose", self._do("Unsqueeze", keys, one), perm=[0, 1, 3, 2])
        scale = self._constant(np.array(self._size**-0.5, np.float32))
        shares = self._do("Add", self._do("Mul", self._do("MatMul", query, turned), scale), HIDDEN)
        mixed = self._do("MatMul", self._do("Softmax", shares, axis=-1), self._do("Unsqueeze", values, one))
        flat = self._shaped(
            self._do("Transpose", mixed, perm=[2, 0, 1, 3]), [-1, self._keys * self._groups * self._size]
        )
        return self._linear(flat, f"{name}o_proj")

    def _heads(self, x: str, name: str, heads: int) -> str:
        return self._do("Transpose", self._shaped(self._linear(x, name), [-1, heads, self._size]), perm=[1, 0, 2])

    def _turned(self, x: str) -> str:
        half = self._constant(np.array([self._size // 2] * 2))
        left, right = f"{self._name()}_left", f"{self._name()}_right"
        self._nodes.append(helper.make_node("Split", [x, half], [left, right], axis=-1))
        other = self._do("Concat", self._do("Neg", right), left, axis=-1)
        return self._do("Add", self._do("Mul", x, COSINES), self._do("Mul", other, SINES))

    def _inner(self, x: str, name: str) -> str:
        gate, up = self._linear(x, f"{name}gate_proj"), self._linear(x, f"{name}up_proj")
        opened = self._do("Mul", self._do("Mul", gate, self._do("Sigmoid", gate)), up)
        return self._linear(opened, f"{name}down_proj")

    def _normed(self, x: str, name: str) -> str:
        epsilon = self._config.get("rms_norm_eps", 1e-6)
        return self._do("RMSNormalization", x, self._weight(f"{name}.weight"), axis=-1, epsilon=epsilon)

    def _linear(self, x: str, name: str) -> str:
        return self._do("MatMul", x, self._do("Transpose", self._weight(f"{name}.weight"), perm=[1, 0]))

    def _weight(self, name: str) -> str:
        if name not in self._known:
            if name not in self._weights:
                raise UserError(f"the model has no weight '{name}', so it is not of the Llama architecture")
            tensor = self._weights[name]
            self._initializers.append(tensor)
            full = tensor.data_type == TensorProto.FLOAT
            self._known[name] = name if full else self._do("Cast", name, to=TensorProto.FLOAT)
        return self._known[name]

    def _shaped(self, x: str, shape: Sequence[int]) -> str:
        return self._do("Reshape", x, self._constant(np.array(shape)))

    def _constant(self, value: Any) -> str:
        name = self._name()
        self._initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _name(self) -> str:
        return f"x{len(self._nodes)}_{len(self._initializers)}_{len(self._known)}"

    def _do(self, kind: str, *given: str, out: str = "", **attributes: Any) -> str:
        name = out or f"y{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(given), [name], **attributes))
        return name
