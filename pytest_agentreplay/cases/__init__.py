"""What a run shows, and what is claimed of it: views and assertions, the words they share, and the files of a case."""
