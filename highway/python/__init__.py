"""The functions that `import highway` offers to Python programs and notebooks; docs/PYTHON.md describes them."""
