"""The functions of `import highway` (docs/PYTHON.md), and what `highway generate`, `translate` and `card` do."""
