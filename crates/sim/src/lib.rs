//! A vLLM-compatible model server without a model: API, metrics, timing and prefix-cache behaviour.
