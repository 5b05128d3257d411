"""Files and folders on the local machine and in buckets, and dataclasses from JSON."""
