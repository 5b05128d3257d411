"""Files and folders on the local machine and in buckets."""
