"""A small trained model that runs without torch: its network through onnxruntime, its tokenizer, and the engine."""
