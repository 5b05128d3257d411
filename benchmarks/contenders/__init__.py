"""The contenders: classes that `benchmarks.child` creates, each in its own process."""
