"""A small trained model without torch: its network through onnxruntime, its tokenizer, and the engine."""
