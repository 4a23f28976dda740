"""Train a model, or with -m a table or a grid:  python scripts/train.py -m table=highway_t1 budget=mini seeds=1,2,3"""

from highway.cli import train

if __name__ == "__main__":
    train()
