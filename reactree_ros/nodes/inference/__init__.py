"""The inference node: a language model behind a service."""
