"""A backbone, a task and a gate that the project does not have, each as its author would write it."""
