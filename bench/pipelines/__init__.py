"""Six pipelines of images and numbers, beside a C version on the host core."""
