"""Any server that speaks the OpenAI protocol: vLLM, TGI, llama.cpp, SGLang, Ollama, hosted ones."""
