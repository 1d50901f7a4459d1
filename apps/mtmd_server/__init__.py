"""An HTTP server: the APIs of OpenAI, Anthropic and llama-server over one model."""
