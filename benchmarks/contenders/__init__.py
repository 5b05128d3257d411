"""Who is compared, each a class that `benchmarks.child` makes in a process of its own."""
