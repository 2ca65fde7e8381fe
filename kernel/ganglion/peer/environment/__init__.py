"""ENVIRONMENTS: the process of one, its bodies, what it declares and answers."""
