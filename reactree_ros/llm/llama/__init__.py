"""GGUF models through llama.cpp's own C functions, in this process."""
