"""GGUF models by llama.cpp's server in this process."""
