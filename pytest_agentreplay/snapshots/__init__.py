"""A run as a file: `codec` is the text, `store` the files, `kit` what stands in the header for a full replay."""
