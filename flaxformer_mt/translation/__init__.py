"""Text in, text out: segments, requests, hypotheses, and the `Translator`."""
