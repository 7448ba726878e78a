"""Text adventures on the Z-machine (Hausknecht et al., 2020), with the interpreter of the package ``jericho``, in C."""
