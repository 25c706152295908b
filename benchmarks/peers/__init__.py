"""NanoLM, llama.cpp and transformers on the same weights in 32, 16, 8 and 4 bits, each in a process of its own."""
